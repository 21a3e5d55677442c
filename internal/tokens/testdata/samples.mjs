// Writes the generated samples of this folder; the same bytes every time.
// Samples that are not generated (source code, prose) stand here as they are.
import { writeFileSync } from 'node:fs';
import { createHash } from 'node:crypto';

let state = 20260917;
const rnd = () => {
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
};
const int = (n) => Math.floor(rnd() * n);
const pick = (list) => list[int(list.length)];
const pad = (n, width) => String(n).padStart(width, '0');
const hash = (n) => createHash('sha256').update('sample' + state + int(1e9)).digest('hex').slice(0, n);
const uuid = () => hash(32).replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, '$1-$2-$3-$4-$5');
const suffix = (n) => Array.from({ length: n }, () => pick('bcdfghjklmnpqrstvwxz2456789')).join('');
const size = 26_000;
const clock = { at: Date.UTC(2026, 8, 14, 6, 12, 0) };
const tick = () => new Date((clock.at += int(4000))).toISOString();
const upTo = (limit, line) => {
  const lines = [];
  for (let total = 0; total < limit; ) {
    const next = line(lines.length);
    lines.push(next);
    total += next.length + 1;
  }
  return lines.join('\n') + '\n';
};
const save = (name, text) => writeFileSync(new URL(name, import.meta.url), text);

const teams = ['billing-worker', 'image-resizer', 'quota', 'session-store', 'mailer', 'recommendation-engine', 'webhooks', 'vault-agent'];
const spaces = ['shop', 'platform-system', 'default', 'observability', 'team-blue'];
const pod = () => { const t = pick(teams); return `${t}-${suffix(9)}-${suffix(5)}`; };

save('log_kubelet.txt', upTo(size, () => {
  const at = tick(), p = pod(), ns = pick(spaces), id = uuid();
  const head = `${pick(['I', 'I', 'I', 'W', 'E'])}${at.slice(5, 7)}${at.slice(8, 10)} ${at.slice(11, 23)}${pad(int(1000), 3)}    ${1000 + int(900)} `;
  return head + pick([
    () => `kubelet.go:${2000 + int(400)}] "SyncLoop (PLEG): event for pod" pod="${ns}/${p}" event={"ID":"${id}","Type":"ContainerStarted","Data":"${hash(64)}"}`,
    () => `pod_workers.go:1301] "Error syncing pod, skipping" err="failed to \\"StartContainer\\" for \\"main\\" with CrashLoopBackOff: \\"back-off 5m0s restarting failed container=main pod=${p}_${ns}(${id})\\"" pod="${ns}/${p}" podUID="${id}"`,
    () => `reconciler_common.go:${200 + int(60)}] "operationExecutor.MountVolume started for volume \\"config\\" (UniqueName: \\"kubernetes.io/configmap/${id}-config\\") pod \\"${p}\\" (UID: \\"${id}\\") " pod="${ns}/${p}"`,
    () => `prober.go:107] "Probe failed" probeType="Readiness" pod="${ns}/${p}" podUID="${id}" containerName="main" probeResult="failure" output="Get \\"http://10.${int(250)}.${int(250)}.${int(250)}:8080/ready\\": context deadline exceeded"`,
    () => `scope.go:117] "RemoveContainer" containerID="${hash(64)}"`,
  ])();
}));

save('log_java.txt', upTo(size, () => {
  const at = tick().replace('T', ' ').replace('Z', '').replace('.', ',');
  const thread = `[${pick(['http-nio-8080-exec-', 'scheduling-', 'kafka-consumer-'])}${1 + int(40)}]`;
  if (int(9) > 0) {
    return `${at} ${pick(['INFO ', 'INFO ', 'DEBUG', 'WARN '])} ${thread} com.acme.orders.service.${pick(['OrderService', 'StockReservationHandler', 'CustomerRepositoryImpl'])} - ${pick([
      `Reserved ${int(90)} units of article ${100000 + int(900000)} for order ${int(1e8)}`,
      `HikariPool-1 - Pool stats (total=${int(20)}, active=${int(20)}, idle=${int(20)}, waiting=0)`,
      `Committed offset ${int(1e7)} on partition orders-${int(12)}`])}`;
  }
  return `${at} ERROR ${thread} com.acme.orders.web.OrderController - Could not place order ${int(1e8)}\n` +
    'java.sql.SQLTransientConnectionException: HikariPool-1 - Connection is not available, request timed out after 30000ms.\n' +
    `\tat com.zaxxer.hikari.pool.HikariPool.createTimeoutException(HikariPool.java:${600 + int(99)})\n` +
    '\tat com.zaxxer.hikari.pool.HikariPool.getConnection(HikariPool.java:179)\n' +
    '\tat org.springframework.jdbc.datasource.DataSourceUtils.fetchConnection(DataSourceUtils.java:160)\n' +
    '\tat org.springframework.transaction.interceptor.TransactionInterceptor.invoke(TransactionInterceptor.java:119)\n' +
    `\tat com.acme.orders.service.OrderService$$EnhancerBySpringCGLIB$$${hash(8)}.place(<generated>)\n` +
    `\t... ${40 + int(50)} common frames omitted`;
}));

save('log_app.txt', upTo(size, () => JSON.stringify({
  timestamp: tick(), severity: pick(['INFO', 'INFO', 'WARNING', 'ERROR']), service: pick(teams), span_id: hash(16), user_id: uuid(),
  message: pick(['payment authorised', 'retrying after connection reset by peer', 'rate limit exceeded for tenant', 'rendered thumbnail']),
  http: { method: pick(['GET', 'PUT', 'DELETE']), status: pick([200, 201, 404, 429, 503]), route: '/tenants/:tenant/invoices/:id', latency_us: int(900000) },
})));

save('log_access.txt', upTo(size, () => {
  const at = tick();
  return `${int(255)}.${int(255)}.${int(255)}.${int(255)} - ${pick(['-', 'kim', 'svc-ci'])} [${at.slice(8, 10)}/Sep/2026:${at.slice(11, 19)} +0200] ` +
    `"${pick(['GET', 'POST', 'HEAD'])} ${pick(['/assets/app-' + hash(8) + '.css', '/search?q=winter+jacket&page=' + int(40), '/api/carts/' + uuid(), '/favicon.ico'])} HTTP/2.0" ` +
    `${pick([200, 206, 301, 403, 502])} ${int(200000)} "${pick(['https://www.google.com/', '-', 'https://acme.test/sale'])}" ` +
    `"${pick(['Mozilla/5.0 (iPhone; CPU iPhone OS 19_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/19.1 Mobile/15E148 Safari/604.1', 'Googlebot/2.1 (+http://www.google.com/bot.html)', 'okhttp/5.1.0'])}" ${rnd().toFixed(3)}`;
}));

const deployment = () => {
  const name = pick(teams) + '-' + int(30), ns = pick(spaces), labels = { app: name, team: pick(['blue', 'green']), tier: 'backend' };
  return {
    apiVersion: 'apps/v1', kind: 'Deployment',
    metadata: { name, namespace: ns, uid: uuid(), resourceVersion: String(int(1e8)), generation: int(40), creationTimestamp: tick().slice(0, 19) + 'Z', labels,
      annotations: { 'deployment.kubernetes.io/revision': String(int(30)), 'meta.helm.sh/release-name': name, 'meta.helm.sh/release-namespace': ns } },
    spec: { replicas: int(8), selector: { matchLabels: labels }, revisionHistoryLimit: 10, progressDeadlineSeconds: 600,
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: '25%', maxSurge: '25%' } },
      template: { metadata: { labels, annotations: { 'checksum/config': hash(64) } }, spec: {
        containers: [{ name: 'main', image: `ghcr.io/acme/${name}:${hash(7)}`, args: ['--config=/etc/app/config.yaml', '--log-format=json'],
          env: [{ name: 'POD_IP', valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: 'status.podIP' } } }, { name: 'GOMEMLIMIT', value: '900MiB' }],
          resources: { requests: { cpu: '250m', memory: '1Gi' }, limits: { memory: '1Gi' } },
          volumeMounts: [{ name: 'config', mountPath: '/etc/app', readOnly: true }], securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } } }],
        volumes: [{ name: 'config', configMap: { name: name + '-config', defaultMode: 420 } }], nodeSelector: { 'kubernetes.io/arch': 'arm64' }, schedulerName: 'default-scheduler' } } },
    status: { observedGeneration: int(40), replicas: 3, updatedReplicas: 3, readyReplicas: int(4), unavailableReplicas: int(3),
      conditions: [{ type: 'Progressing', status: 'True', lastUpdateTime: tick().slice(0, 19) + 'Z', reason: 'NewReplicaSetAvailable', message: `ReplicaSet "${name}-${suffix(9)}" has successfully progressed.` },
        { type: 'Available', status: 'False', lastTransitionTime: tick().slice(0, 19) + 'Z', reason: 'MinimumReplicasUnavailable', message: 'Deployment does not have minimum availability.' }] },
  };
};
const list = (n) => ({ apiVersion: 'v1', kind: 'List', metadata: { resourceVersion: '' }, items: Array.from({ length: n }, deployment) });
save('k8s_list_pretty.txt', JSON.stringify(list(6), null, 4));
save('k8s_list_compact.txt', JSON.stringify(list(14)));

const scalar = (v) => (typeof v === 'string' && (v === '' || /^[\d"]|[:%]/.test(v)) ? JSON.stringify(v) : String(v));
const yaml = (v, depth) => {
  const dent = ' '.repeat(depth);
  if (Array.isArray(v)) {
    return v.map((x) => (typeof x === 'object' ? `${dent}- ` + yaml(x, depth + 2).slice(depth + 2) : `${dent}- ${scalar(x)}\n`)).join('');
  }
  return Object.entries(v).map(([k, x]) => (typeof x === 'object' ? `${dent}${k}:\n` + yaml(x, Array.isArray(x) ? depth : depth + 2) : `${dent}${k}: ${scalar(x)}\n`)).join('');
};
save('k8s_yaml.txt', Array.from({ length: 13 }, () => yaml(deployment(), 0)).join('---\n'));

save('kubectl_table.txt', 'NAMESPACE         NAME                                           READY   STATUS             RESTARTS        AGE     IP              NODE\n' +
  upTo(size, () => `${pick(spaces).padEnd(18)}${pod().padEnd(47)}${pick(['1/1', '0/1', '2/2']).padEnd(8)}${pick(['Running', 'CrashLoopBackOff', 'Pending', 'Completed']).padEnd(19)}${(int(9) + ' (' + int(60) + 'm ago)').padEnd(16)}${(int(90) + 'd').padEnd(8)}${('10.42.' + int(200) + '.' + int(250)).padEnd(16)}node-${pick('abc')}${int(30)}`));

save('csv_orders.txt', 'order_id;customer;country;sku;quantity;unit_price;ordered_at;comment\n' +
  upTo(size, () => `${int(1e7)};${pick(['Müller GmbH', 'Ace Hardware', 'Tanaka & Co.', 'Fjord Supply AS', '"Lee, Park and Sons"'])};${pick(['DE', 'US', 'JP', 'NO', 'KR'])};${pick('ABCDEF')}${pick('XYZ')}-${pad(int(99999), 5)};${1 + int(50)};${(rnd() * 400).toFixed(2)};${tick().slice(0, 16)};${pick(['', '', 'leave at the door', 'gift wrapping', 'invoice to head office'])}`));

save('csv_measurements.txt', 'station,time,temperature,humidity,pressure,wind\n' +
  upTo(size, () => `ST${pad(int(400), 4)},${tick()},${(rnd() * 40 - 10).toFixed(1)},${int(100)},${(980 + rnd() * 60).toFixed(2)},${(rnd() * 30).toFixed(1)}`));

save('ids.txt', upTo(size, () => pick([() => uuid(), () => hash(40), () => `req_${suffix(16)}`, () => `sha256:${hash(64)}`, () => `0x${hash(16)}`])()));
save('base64.txt', upTo(size, () => Buffer.from(Array.from({ length: 57 }, () => int(256))).toString('base64')));

save('html.txt', '<!doctype html>\n<html lang="en">\n<body>\n' + upTo(size, () => pick([
  () => `  <tr class="row ${pick(['odd', 'even'])}"><td><a href="/customers/${int(9999)}">${pick(['Ace Hardware', 'Fjord Supply'])}</a></td><td align="right">${(rnd() * 900).toFixed(2)}&nbsp;€</td></tr>`,
  () => `  <div id="card-${int(999)}" class="card shadow-sm mt-${int(5)}" data-testid="summary"><p>${pick(['Your order is on its way.', 'We could not charge your card.'])}</p></div>`,
  () => `  <script src="/static/${hash(12)}.js" integrity="sha384-${Buffer.from(hash(48)).toString('base64')}" defer></script>`])()) + '</body>\n</html>\n');
