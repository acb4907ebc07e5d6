/*
 * kernels.h
 *	  The functions that each instruction set provides.
 *
 * All of them are compiled from one source, kernels_impl.h, over a small set of vector
 * operations that each of kernels_scalar.c, kernels_avx2.c and kernels_avx512.c defines.
 * Every element goes through the same sequence of IEEE operations whatever its place in a
 * vector and whatever the vector's length; tails are masked lanes of the same code.  NaNs
 * that arithmetic makes are stored as the one quiet NaN 0x7FC00000 (0x7FF8…): which of
 * two NaN operands an instruction hands on depends on how a compiler ordered them.
 */
#ifndef ENGINE_CPU_KERNELS_H
#define ENGINE_CPU_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * One block of a product, y[m][n] = Σk x[m][k] · b[k][n] + bias[n], for panels of `panel`
 * columns.  Column n of b lies in panel n / panel at b + (n / panel) · b_panel +
 * k · b_step + n % panel, all in elements.
 */
struct cpu_product
{
	const void *x;
	int64_t		x_step;				/* elements from one row to the next */
	const void *b;
	int64_t		b_step;
	int64_t		b_panel;
	void	   *y;
	int64_t		y_step;
	const void *bias;				/* or NULL */
	int64_t		bias_step;			/* 1, or 0: a scalar */
	int64_t		k;
	int64_t		n;					/* columns in all */
	bool		padded;				/* b's last panel is full, with zeros behind column n */
};

struct cpu_float_kernels
{
	int			bytes;				/* of an element */
	int			panel;				/* columns */
	int			rows;				/* of the largest tile */

	/* Rows [m0, m1) of the panels [p0, p1). */
	void		(*product) (const struct cpu_product *product, int64_t m0, int64_t m1,
							int64_t p0, int64_t p1);

	/* Independent multiply-adds, to measure with; returns the number of operations. */
	double		(*peak) (int64_t rounds);

	/* y[i] = fn(x[i]); x may be y. */
	void		(*unary) (int fn, const double f[2], const void *x, void *y, int64_t n);

	/* The same of rows of n in place, `step` elements apart: what a function loads is loaded once. */
	void		(*unary_rows) (int fn, const double f[2], void *x, int64_t step, int64_t rows, int64_t n);

	/* y[i] = fn(x[i]) as BOOL: UNARY_IS_NAN, UNARY_IS_INF. */
	void		(*test) (int fn, const double f[2], const void *x, uint8_t *y, int64_t n);

	/* y[i] = fn(a[i · a_step], b[i · b_step]); steps are 0 or 1. */
	void		(*binary) (int fn, const void *a, int64_t a_step, const void *b, int64_t b_step,
						   void *y, int64_t n);
	void		(*compare) (int fn, const void *a, int64_t a_step, const void *b, int64_t b_step,
							uint8_t *y, int64_t n);

	/*
	 * A reduction in pieces: start, then add for consecutive elements (all pieces but the
	 * last a multiple of 16 long), then finish with the number of all elements.  state: 16
	 * elements.  shift: what LOG_SUM_EXP takes off each element.
	 */
	void		(*reduce_start) (int fn, void *state);
	void		(*reduce_add) (int fn, double shift, const void *x, int64_t n, void *state);
	void		(*reduce_finish) (int fn, double shift, int64_t n, const void *state, void *y);

	/* n consecutive elements; x may be y. */
	void		(*softmax) (int fn, const void *x, void *y, int64_t n);
	void		(*normalize) (int fn, const void *x, void *y, int64_t n);
};

/*
 * One head of attention over the tokens of one row: y[i] = Σj softmaxj(scale · q[i]·k[j] +
 * bias[j − i]) v[j].  q, k, v and y are the head's numbers of the row's first token.
 */
#define CPU_ATTENTION_QUERIES	128	/* of a call, at most; a multiple of a group */
#define CPU_ATTENTION_GROUP		32	/* queries that look at the same blocks of keys */
#define CPU_ATTENTION_KEYS		64	/* of a block */

struct cpu_attention
{
	const void *q;					/* float32, or bf16 where y is so */
	const void *k;
	const void *v;
	int64_t		x_step;				/* elements from one token to the next, of q, k and v */
	void	   *y;
	int64_t		y_step;
	int64_t		size;				/* of the head */
	int64_t		length;				/* tokens */
	double		scale;
	int64_t		window;				/* only |j − i| ≤ window; 0: all */
	const float *bias;				/* of j − i = −bias_reach … bias_reach, beyond them the ends; or NULL */
	int64_t		bias_reach;
	float	   *scratch;			/* cpu_attention_scratch bytes, aligned */
};

struct cpu_sequence_kernels			/* float32 */
{
	/* The queries [q0, q1), q0 a multiple of CPU_ATTENTION_QUERIES. */
	void		(*attention) (const struct cpu_attention *attention, int64_t q0, int64_t q1);

	/* y = fn(x + r) · g + b of n elements; r, g and b may be NULL, y may be x or r. */
	void		(*norm) (int fn, double epsilon, const float *x, const float *r, const float *g, const float *b,
						 float *y, int64_t n);

	/* The first `turned` of `size` numbers by cosines and sines (turned / 2 each); y may be x. */
	void		(*rotary) (const float *table, int64_t turned, bool neighbours, const float *x, float *y);

	/* y[i] = fn of the count numbers x[t · step + i], t from 0, at the places place + t; not for POOL_FIRST and POOL_LAST. */
	void		(*pool) (int fn, const float *x, int64_t step, int64_t place, int64_t count, float *y, int64_t n);
};

struct cpu_kernels
{
	const char *arch;				/* "scalar", "avx2", "avx512" */
	struct cpu_float_kernels f32;
	struct cpu_float_kernels f64;
	struct cpu_sequence_kernels sequence;
};

/* Numbers of a head, in scratch: as many as whole vectors hold. */
static inline int64_t
cpu_attention_padded(int64_t size)
{
	return (size + 15) / 16 * 16;
}

/* Bytes: queries and outputs, a block's keys and values, scores, two numbers a query, biases. */
static inline uint64_t
cpu_attention_scratch(int64_t size)
{
	return sizeof(float) * (uint64_t) (cpu_attention_padded(size) * 2 * (CPU_ATTENTION_QUERIES + CPU_ATTENTION_KEYS) +
									   CPU_ATTENTION_KEYS * CPU_ATTENTION_GROUP + 2 * CPU_ATTENTION_QUERIES +
									   CPU_ATTENTION_QUERIES + CPU_ATTENTION_KEYS + CPU_ATTENTION_GROUP);
}

extern const struct cpu_kernels cpu_kernels_scalar;
#ifdef __x86_64__
extern const struct cpu_kernels cpu_kernels_avx2;
extern const struct cpu_kernels cpu_kernels_avx512;
#endif

#define CPU_REDUCE_LANES	16
#define CPU_KERNEL_FAMILY	"2"		/* raise it when bits change */

#endif							/* ENGINE_CPU_KERNELS_H */
