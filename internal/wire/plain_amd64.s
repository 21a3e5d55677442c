#include "textflag.h"

// func plainRun(b []byte) int
//
// SSE2 is part of every amd64 processor. Compared as signed numbers, control
// characters and everything outside ASCII are below a blank.
TEXT ·plainRun(SB), NOSPLIT, $0-32
	MOVQ b_base+0(FP), SI
	MOVQ b_len+8(FP), CX
	XORQ DX, DX
	MOVQ $0x2222222222222222, AX // quotes
	MOVQ AX, X5
	PUNPCKLQDQ X5, X5
	MOVQ $0x5c5c5c5c5c5c5c5c, AX // backslashes
	MOVQ AX, X6
	PUNPCKLQDQ X6, X6
	MOVQ $0x2020202020202020, AX // blanks
	MOVQ AX, X7
	PUNPCKLQDQ X7, X7
	SUBQ $32, CX
	JLT  done

loop:
	MOVOU (SI)(DX*1), X0
	MOVOU 16(SI)(DX*1), X8
	MOVO X7, X1
	MOVO X7, X9
	PCMPGTB X0, X1
	PCMPGTB X8, X9
	MOVO X0, X2
	MOVO X8, X10
	PCMPEQB X5, X0
	PCMPEQB X5, X8
	PCMPEQB X6, X2
	PCMPEQB X6, X10
	POR  X1, X0
	POR  X9, X8
	POR  X2, X0
	POR  X10, X8
	PMOVMSKB X0, AX
	PMOVMSKB X8, BX
	SHLL $16, BX
	ORL  BX, AX
	JNZ  found
	ADDQ $32, DX
	CMPQ DX, CX
	JLE  loop

done:
	MOVQ DX, ret+24(FP)
	RET

found:
	BSFL AX, AX
	ADDQ AX, DX
	MOVQ DX, ret+24(FP)
	RET
