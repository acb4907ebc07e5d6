/*
 * vectors.c
 *	  How far vectors of real[] are apart: infer.cosine_similarity, infer.distance.
 *
 * Nouns
 *	lanes		partial sums, one for each of eight neighbours, in pairs; added up at the end in a fixed order
 *
 * Invariants
 *	- Sums are of double precision: products of two floats are exact in it.  The order of additions
 *	  depends on nothing but the length, so equal vectors have equal distances.
 *	- A vector has one dimension and at least one element, all of them finite: anything else is an error,
 *	  not a number that sorts somewhere.
 *	- A vector of zeros has no direction.  Its cosine similarity is 0 and its cosine distance NaN (as
 *	  pgvector's), so either way it is never the nearest.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"

#include "infer.h"
#include "utils/builtins.h"

#define LANES 8

typedef struct Vectors
{
	const float *a;
	const float *b;
	int			count;
} Vectors;

/* ---- arguments ---- */

static void
check_vector(const ArrayType *array)
{
	if (ARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a vector has one dimension, but the array has %d", ARR_NDIM(array))));
	if (ARR_NDIM(array) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a vector must have at least one element")));
	if (array_contains_nulls(unconstify(ArrayType *, array)))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("an element of the vector is null")));
}

static Vectors
get_vectors(const ArrayType *a, const ArrayType *b)
{
	check_vector(a);
	check_vector(b);
	if (ARR_DIMS(a)[0] != ARR_DIMS(b)[0])
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the vectors have %d and %d elements", ARR_DIMS(a)[0], ARR_DIMS(b)[0]),
				 errhint("Compare embeddings of one model, made with the same option \"dimensions\".")));
	return (Vectors) {(const float *) ARR_DATA_PTR(a), (const float *) ARR_DATA_PTR(b), ARR_DIMS(a)[0]};
}

/* A sum of finite floats, or of their products, is finite in double precision. */
static double
check_sum(double sum)
{
	if (unlikely(!isfinite(sum)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("an element of the vector is NaN or infinite")));
	return sum;
}

/* ---- sums ---- */

#define PAIRS (LANES / 2)

/* Vectors of the compiler's own: it has them for every processor. */
typedef double Pair __attribute__((vector_size(2 * sizeof(double))));
typedef float FloatPair __attribute__((vector_size(2 * sizeof(float))));
typedef int64 BitsPair __attribute__((vector_size(2 * sizeof(int64))));

typedef struct Lanes
{
	Pair		pair[PAIRS];
} Lanes;

static inline Pair
load(const float *from)
{
	FloatPair	pair;

	memcpy(&pair, from, sizeof(pair));
	return __builtin_convertvector(pair, Pair);
}

static inline Pair
absolute(Pair pair)
{
	return (Pair) ((BitsPair) pair & PG_INT64_MAX);
}

static inline double
add_lanes(const Lanes *lanes)
{
	Pair		sum = (lanes->pair[0] + lanes->pair[2]) + (lanes->pair[1] + lanes->pair[3]);

	return sum[0] + sum[1];
}

/*
 * Runs body for all elements, two at a time: lane numbers the pair, x and y are a's and b's.  The last
 * ones, less than there are lanes, are completed by zeros.
 */
#define FOR_PAIRS(vectors, body) \
	do { \
		const float *a = (vectors)->a; \
		const float *b = (vectors)->b; \
		int			left = (vectors)->count; \
		float		rest[2][LANES] = {0}; \
		\
		for (; left > 0; a += LANES, b += LANES, left -= LANES) \
		{ \
			if (left < LANES) \
			{ \
				a = memcpy(rest[0], a, left * sizeof(float)); \
				b = memcpy(rest[1], b, left * sizeof(float)); \
			} \
			_Pragma("GCC unroll 4") \
			for (int lane = 0; lane < PAIRS; lane++) \
			{ \
				Pair		x = load(a + 2 * lane); \
				Pair		y = load(b + 2 * lane); \
				\
				body; \
			} \
		} \
	} while (0)

static double
sum_products(const Vectors *vectors)
{
	Lanes		sum = {0};

	FOR_PAIRS(vectors, sum.pair[lane] += x * y);
	return add_lanes(&sum);
}

static double
sum_differences(const Vectors *vectors)
{
	Lanes		sum = {0};

	FOR_PAIRS(vectors, sum.pair[lane] += absolute(x - y));
	return add_lanes(&sum);
}

static double
sum_squares(const Vectors *vectors)
{
	Lanes		sum = {0};

	FOR_PAIRS(vectors, sum.pair[lane] += (x - y) * (x - y));
	return add_lanes(&sum);
}

/* NaN if either has no direction. */
static double
cosine(const Vectors *vectors)
{
	Lanes		product = {0};
	Lanes		a_square = {0};
	Lanes		b_square = {0};
	double		squares;

	FOR_PAIRS(vectors, (product.pair[lane] += x * y, a_square.pair[lane] += x * x, b_square.pair[lane] += y * y));
	squares = check_sum(add_lanes(&a_square)) * check_sum(add_lanes(&b_square));
	if (squares == 0)
		return NAN;
	return Max(Min(add_lanes(&product) / sqrt(squares), 1), -1);
}

/* ---- SQL ---- */

PG_FUNCTION_INFO_V1(infer_cosine_similarity);
Datum
infer_cosine_similarity(PG_FUNCTION_ARGS)
{
	Vectors		vectors = get_vectors(PG_GETARG_ARRAYTYPE_P(0), PG_GETARG_ARRAYTYPE_P(1));
	double		similarity = cosine(&vectors);

	PG_RETURN_FLOAT8(isnan(similarity) ? 0 : similarity);
}

typedef double (*Metric) (const Vectors *vectors);

static double
cosine_distance(const Vectors *vectors)
{
	return 1 - cosine(vectors);
}

static double
l2_distance(const Vectors *vectors)
{
	return sqrt(check_sum(sum_squares(vectors)));
}

static double
l1_distance(const Vectors *vectors)
{
	return check_sum(sum_differences(vectors));
}

static double
inner_product_distance(const Vectors *vectors)
{
	return 0 - check_sum(sum_products(vectors));
}

static Metric
metric_of(const text *name)
{
	static const struct
	{
		const char *name;
		Metric		metric;
	}			metrics[] = {
		{"cosine", cosine_distance},
		{"l2", l2_distance},
		{"l1", l1_distance},
		{"inner_product", inner_product_distance},
	};
	int			length = VARSIZE_ANY_EXHDR(name);

	for (int i = 0; i < lengthof(metrics); i++)
		if (strlen(metrics[i].name) == length && memcmp(metrics[i].name, VARDATA_ANY(name), length) == 0)
			return metrics[i].metric;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown metric \"%s\"", pnstrdup(VARDATA_ANY(name), length)),
			 errhint("The metrics are cosine, l2, l1 and inner_product.")));
	return NULL;
}

PG_FUNCTION_INFO_V1(infer_distance);
Datum
infer_distance(PG_FUNCTION_ARGS)
{
	Metric		metric = metric_of(PG_GETARG_TEXT_PP(2));
	Vectors		vectors = get_vectors(PG_GETARG_ARRAYTYPE_P(0), PG_GETARG_ARRAYTYPE_P(1));

	PG_RETURN_FLOAT8(metric(&vectors));
}
