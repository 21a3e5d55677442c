package mask

// A token is a kind of secret that is known by its own form. Its pattern begins at
// the anchor, or back bytes in front of it; the first capturing group is the secret,
// else all of it. What follows in the same word goes with it.
type token struct {
	set, kind string
	anchors   []string
	pattern   string
	back      int
	walk      func(byte) bool // back is at most so far, over such bytes
	word      bool            // the secret begins a word
	notAfter  func(byte) bool // what cannot stand in front of it
	run       int             // at least so many bytes of a word follow the anchor; 8 if it is 0, none if below
	check     func(secret []byte) bool
}

// tokens are matched in windows of this many bytes.
const window = 640

var tokens = []token{
	{set: "cloud", kind: "aws_access_key_id", anchors: []string{`AKIA`, `ASIA`, `ABIA`, `ACCA`, `A3T[A-Z0-9]`}, pattern: `[A-Z0-9]{20}`, notAfter: isCapital},
	{set: "cloud", kind: "aws_bedrock_key", anchors: []string{`ABSK[A-Za-z0-9]`}, pattern: `ABSK[A-Za-z0-9+/]{40,}={0,2}`, word: true},
	{set: "cloud", kind: "aws_signature", anchors: []string{`(?i)amz-signature=`}, pattern: `(?i)amz-signature=([0-9a-f]{32,})`, run: -1},
	{set: "cloud", kind: "aws_session_token", anchors: []string{`(?i)amz-security-token=`}, pattern: `(?i)amz-security-token=([\w%+/=-]{16,})`},
	{set: "cloud", kind: "aws_session_token", anchors: []string{`IQoJ[a-z0-9]`, `FwoG[A-Za-z]`}, pattern: `(?:IQoJ|FwoG)[A-Za-z0-9+/]{96,}={0,2}`},
	{set: "cloud", kind: "gcp_api_key", anchors: []string{`AIza`}, pattern: `AIza[\w-]{35}`, run: -1},
	{set: "cloud", kind: "gcp_oauth_token", anchors: []string{`ya29\.`}, pattern: `ya29\.[\w-]{20,}`},
	{set: "cloud", kind: "gcp_oauth_secret", anchors: []string{`GOCSPX-`}, pattern: `GOCSPX-[\w-]{20,}`},
	{set: "cloud", kind: "gcp_refresh_token", anchors: []string{`1//0[\w-]`, `1\\/\\/0`}, pattern: `1//0[\w-]{30,}`},
	{set: "cloud", kind: "azure_key", anchors: []string{`\+ASt[A-Za-z0-9+/]`, `\+ACDb`, `\+ARm`, `\+AEh`}, pattern: `[A-Za-z0-9+/]{44,76}\+A[A-Za-z0-9+/]{8,9}={0,2}`, back: 76, walk: inBase64, run: -1},
	{set: "cloud", kind: "azure_client_secret", anchors: []string{`[0-9]Q~[\w.~-]`}, pattern: `[\w.~-]{3}[0-9]Q~[\w.~-]{31,34}`, back: 3, run: -1},
	{set: "cloud", kind: "azure_sas", anchors: []string{`(?i)sig=[a-z0-9%+/]`}, pattern: `(?i)sig=([a-z0-9%+/_-]{40,}={0,2})`, word: true, run: -1},
	{set: "cloud", kind: "digitalocean_token", anchors: []string{`do[opr]_v1_`}, pattern: `do[opr]_v1_[a-f0-9]{64}`},
	{set: "cloud", kind: "heroku_api_key", anchors: []string{`HRKU-`}, pattern: `HRKU-[\w-]{30,}`},
	{set: "cloud", kind: "cloudflare_origin_key", anchors: []string{`v1\.0-[a-f0-9]`}, pattern: `v1\.0-[a-f0-9]{24}-[a-f0-9]{100,}`, word: true},
	{set: "cloud", kind: "databricks_token", anchors: []string{`dapi[a-f0-9]`}, pattern: `dapi[a-f0-9]{32}(?:-\d)?`, word: true},
	{set: "cloud", kind: "flyio_token", anchors: []string{`fo1_`, `fm1[ar]_`, `fm2_`}, pattern: `(?:fo1_[\w-]{43}|fm1[ar]_[\w+/-]{100,}={0,3}|fm2_[\w+/-]{100,}={0,3})`, word: true},
	{set: "cloud", kind: "terraform_token", anchors: []string{`\.atlasv1\.`}, pattern: `[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{50,}`, back: 14},
	{set: "cloud", kind: "vault_token", anchors: []string{`hvs\.[\w-]`, `hvb\.[\w-]`, `hvr\.[\w-]`}, pattern: `hv[sbr]\.[\w-]{20,}`, word: true},
	{set: "cloud", kind: "pulumi_token", anchors: []string{`pul-[a-f0-9]`}, pattern: `pul-[a-f0-9]{40}`, word: true},
	{set: "cloud", kind: "doppler_token", anchors: []string{`dp\.[psc]t\.`, `dp\.sa\.`}, pattern: `dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{40,}`, word: true},
	{set: "cloud", kind: "openshift_token", anchors: []string{`sha256~`}, pattern: `sha256~[\w-]{43}`},
	{set: "cloud", kind: "supabase_token", anchors: []string{`sbp_[a-f0-9]`}, pattern: `sbp_[a-f0-9]{40}`, word: true},

	{set: "vcs", kind: "github_token", anchors: []string{`gh[pousr]_`}, pattern: `gh[pousr]_[A-Za-z0-9]{36,}`},
	{set: "vcs", kind: "github_fine_grained_token", anchors: []string{`github_pat_`}, pattern: `github_pat_\w{30,}`},
	{set: "vcs", kind: "gitlab_token", anchors: []string{`glpat-`, `gldt-`, `glptt-`, `glrt-`, `glcbt-`, `glft-`, `glimt-`, `glagent-`, `gloas-`, `glsoat-`, `glffct-`}, pattern: `gl[a-z]{2,5}-[\w-]{20,}(?:\.[\w.-]+)?`},
	{set: "vcs", kind: "gitlab_token", anchors: []string{`GR1348941`}, pattern: `GR1348941[\w-]{20,}`},
	{set: "vcs", kind: "bitbucket_token", anchors: []string{`ATBB[A-Za-z0-9]`, `ATCTT3xFfG`}, pattern: `AT(?:BB[A-Za-z0-9]{28,}|CTT3xFfG[\w=-]{20,})`, word: true},
	{set: "vcs", kind: "atlassian_token", anchors: []string{`ATATT3`}, pattern: `ATATT3[\w=-]{40,}`},

	{set: "chat", kind: "slack_token", anchors: []string{`xox[abceoprsd]-`, `xoxe\.xox`}, pattern: `(?:xoxe\.)?xox[abceoprsd]-[A-Za-z0-9-]{10,}`},
	{set: "chat", kind: "slack_token", anchors: []string{`xapp-[0-9]`}, pattern: `xapp-\d-[A-Za-z0-9-]{20,}`},
	{set: "chat", kind: "slack_webhook", anchors: []string{`hooks\.slack`}, pattern: `hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/([\w/+-]{20,})`, run: -1},
	{set: "chat", kind: "telegram_token", anchors: []string{`[0-9]:AA[\w-]`}, pattern: `[0-9]{6,12}:AA[\w-]{32,}`, back: 11, walk: isDigit},
	{set: "chat", kind: "discord_token", anchors: []string{`[MNO][DTjz][AEIMQUYcgk][w-z0-5]`}, pattern: `(?:[MNO][DTjz][AEIMQUYcgk][w-z0-5])[\w-]{19,24}\.[\w-]{6}\.[\w-]{27,}`, word: true},
	{set: "chat", kind: "discord_webhook", anchors: []string{`webhooks[/\\]`}, pattern: `webhooks/\d{15,}/([\w-]{30,})`, run: -1},
	{set: "chat", kind: "teams_webhook", anchors: []string{`webhook\.office\.com`}, pattern: `webhook\.office\.com/webhookb?2?/([\w@/-]{40,})`, run: -1},

	{set: "payment", kind: "stripe_key", anchors: []string{`[sr]k_live_`, `[sr]k_test_`, `[sr]k_prod_`}, pattern: `[sr]k_(?:test|live|prod)_[A-Za-z0-9]{10,}`},
	{set: "payment", kind: "stripe_webhook_secret", anchors: []string{`whsec_`}, pattern: `whsec_[A-Za-z0-9+/]{24,}={0,2}`},
	{set: "payment", kind: "square_token", anchors: []string{`sq0atp-`, `sq0csp-`}, pattern: `sq0(?:atp|csp)-[\w-]{22,}`},
	{set: "payment", kind: "braintree_token", anchors: []string{`access_token\$`}, pattern: `access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$([0-9a-f]{32})`, run: -1},
	{set: "payment", kind: "shopify_token", anchors: []string{`shp[acps][ats]_`}, pattern: `shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}`},

	{set: "ai", kind: "anthropic_key", anchors: []string{`sk-ant-`}, pattern: `sk-ant-[\w-]{20,}`},
	{set: "ai", kind: "openai_key", anchors: []string{`sk-[A-Za-z0-9]`}, pattern: `sk-(?:(?:proj|svcacct|admin|None|or-v1|lf)-[\w-]{20,}|[A-Za-z0-9]{32,})`, word: true, check: digit},
	{set: "ai", kind: "huggingface_token", anchors: []string{`hf_[A-Za-z0-9]`}, pattern: `hf_[A-Za-z0-9]{30,}`, word: true},
	{set: "ai", kind: "perplexity_key", anchors: []string{`pplx-`}, pattern: `pplx-[A-Za-z0-9]{40,}`},
	{set: "ai", kind: "groq_key", anchors: []string{`gsk_[A-Za-z0-9]`}, pattern: `gsk_[A-Za-z0-9]{40,}`, word: true},
	{set: "ai", kind: "xai_key", anchors: []string{`xai-[A-Za-z0-9]`}, pattern: `xai-[A-Za-z0-9]{60,}`, word: true},
	{set: "ai", kind: "replicate_token", anchors: []string{`r8_[A-Za-z0-9]`}, pattern: `r8_[A-Za-z0-9]{37,}`, word: true},
	{set: "ai", kind: "langsmith_key", anchors: []string{`lsv2_`}, pattern: `lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}`},

	{set: "mail", kind: "sendgrid_key", anchors: []string{`SG\.[\w-]`}, pattern: `SG\.[\w-]{16,32}\.[\w-]{16,64}`, word: true},
	{set: "mail", kind: "mailgun_key", anchors: []string{`key-[0-9a-f]`}, pattern: `key-[0-9a-f]{32}`, word: true},
	{set: "mail", kind: "mailchimp_key", anchors: []string{`-us[0-9]`}, pattern: `[0-9a-f]{32}-us[0-9]{1,2}`, back: 32},
	{set: "mail", kind: "brevo_key", anchors: []string{`xkeysib-`, `xsmtpsib-`}, pattern: `x(?:key|smtp)sib-[a-f0-9]{64}-\w{16}`},
	{set: "mail", kind: "twilio_key", anchors: []string{`SK[0-9a-f][0-9a-f]`}, pattern: `SK[0-9a-f]{32}`, word: true},

	{set: "packages", kind: "npm_token", anchors: []string{`npm_[A-Za-z0-9]`}, pattern: `npm_[A-Za-z0-9]{36}`},
	{set: "packages", kind: "pypi_token", anchors: []string{`pypi-AgE`}, pattern: `pypi-AgE[\w-]{50,}`},
	{set: "packages", kind: "docker_token", anchors: []string{`dckr_`}, pattern: `dckr_(?:pat|oat)_[\w-]{20,}`},
	{set: "packages", kind: "rubygems_key", anchors: []string{`rubygems_`}, pattern: `rubygems_[a-f0-9]{48}`},
	{set: "packages", kind: "nuget_key", anchors: []string{`oy2[a-z0-9]`}, pattern: `oy2[a-z0-9]{43}`, word: true},
	{set: "packages", kind: "clojars_token", anchors: []string{`CLOJARS_`}, pattern: `CLOJARS_[a-z0-9]{60}`},
	{set: "packages", kind: "artifactory_token", anchors: []string{`AKCp[A-Za-z0-9]`, `cmVmd[A-Za-z0-9]`}, pattern: `(?:AKCp[A-Za-z0-9]{69}|cmVmd[A-Za-z0-9]{59})`, word: true},

	{set: "saas", kind: "grafana_token", anchors: []string{`glsa_`, `glc_[A-Za-z0-9]`}, pattern: `(?:glsa_[A-Za-z0-9]{24,}(?:_[A-Fa-f0-9]{8})?|glc_[A-Za-z0-9+/]{32,}={0,2})`, word: true},
	{set: "saas", kind: "newrelic_key", anchors: []string{`NRAK-`, `NRII-`, `NRJS-`}, pattern: `NR(?:AK|II|JS)-[\w-]{19,}`},
	{set: "saas", kind: "sentry_token", anchors: []string{`sntry[su]_`}, pattern: `sntry[su]_[\w+/=-]{40,}`},
	{set: "saas", kind: "dynatrace_token", anchors: []string{`dt0c01\.`, `dt0s01\.`}, pattern: `dt0[cs]01\.[A-Z0-9]{24}\.[A-Z0-9]{64}`},
	{set: "saas", kind: "postman_key", anchors: []string{`PMAK-`}, pattern: `PMAK-[a-f0-9]{24}-[a-f0-9]{34}`},
	{set: "saas", kind: "linear_key", anchors: []string{`lin_api_`}, pattern: `lin_api_[A-Za-z0-9]{40}`},
	{set: "saas", kind: "notion_token", anchors: []string{`ntn_[0-9]`, `secret_[A-Za-z0-9]`}, pattern: `(?:ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43})`, word: true, check: digit},
	{set: "saas", kind: "figma_token", anchors: []string{`figd_`}, pattern: `figd_[\w-]{36,}`},
	{set: "saas", kind: "planetscale_token", anchors: []string{`pscale_`}, pattern: `pscale_(?:tkn|pw|oauth)_[\w=.-]{32,}`},
	{set: "saas", kind: "sonarqube_token", anchors: []string{`sq[pua]_[a-f0-9]`}, pattern: `sq[pua]_[a-f0-9]{40}`, word: true},
	{set: "saas", kind: "circleci_token", anchors: []string{`CCIPAT_`}, pattern: `CCIPAT_\w{20,}`},
	{set: "saas", kind: "contentful_token", anchors: []string{`CFPAT-`}, pattern: `CFPAT-[\w-]{40,}`},
	{set: "saas", kind: "octopus_key", anchors: []string{`API-[A-Z0-9]`}, pattern: `API-[A-Z0-9]{26,}`, word: true},

	{set: "keys", kind: "age_secret_key", anchors: []string{`AGE-SECRET-KEY-`}, pattern: `AGE-SECRET-KEY-1[A-Z0-9]{58}`},
	{set: "keys", kind: "onepassword_token", anchors: []string{`ops_eyJ`}, pattern: `ops_eyJ[A-Za-z0-9+/_-]{100,}={0,3}`},

	{set: "web", kind: "authorization", anchors: []string{`(?i)bearer[ +]`, `(?i)bearer%20`}, pattern: `(?i)bearer(?: +|\+|%20)([a-z0-9._~+/-]{16,}=*)`, word: true, run: -1, check: digit},
	{set: "web", kind: "authorization", anchors: []string{`(?i)basic [a-z0-9+/]`}, pattern: `(?i)basic +([a-z0-9+/]{8,}={0,2})`, word: true, run: -1, check: userAndPassword},
	{set: "database", kind: "dsn_password", anchors: []string{`@tcp\(`, `@unix`}, pattern: `[\w.-]+:([^\s'"]+)@(?:tcp|unix)\(`, back: 200, walk: inDSN, run: -1},
	{set: "database", kind: "pgpass", anchors: []string{`:5432:`, `:5433:`, `:6432:`, `:5439:`, `:\*:\*:`}, pattern: `:(?:[0-9]{4}|\*):[\w.*-]+:[\w.*@-]+:([^\s:"'\\,/]{3,})`, run: -1},
	{set: "web", kind: "curl_user", anchors: []string{` -u[ '"]`, `--user[ =]`}, pattern: ` ?--?u(?:ser)?[ =]*['"]?[\w.@-]+:([^\s'":/<>$\\{]{3,})`, run: -1},
}
