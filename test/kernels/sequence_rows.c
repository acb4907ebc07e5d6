/*
 * sequence_rows.c
 *	  Same row, same bits, for the primitives of encoders: a row of any length has the bits
 *	  that it has alone at any place of a batch, among rows of other lengths, without tokens,
 *	  with NaN and infinities, on 1 or 2 threads or on the CUDA device; and the same bits for every
 *	  instruction set.
 *
 * The same checker is then given kernels that are wrong on purpose, and must catch them.
 */
#include "engine/cpu/cpu.h"
#include "protocol/protocol.h"
#include "rows.h"
#include "sequence.h"
#include "tap.h"

static const uint32_t lengths[] = {1, 2, 3, 17, 33, 64, 65, 128, 257, 1024};

#define LENGTHS		((int) (sizeof(lengths) / sizeof(*lengths)))
#define TOKENS_MAX	2000
#define ROWS_MAX	64
#define CASES		48

struct batch
{
	uint32_t	rows;
	uint32_t	row_off[ROWS_MAX + 1];
	uint32_t	place;				/* of the row in question */
};

static struct sequence_case cases[CASES];
static int	cases_count;

static void
add_case(struct sequence_case c)
{
	cases[cases_count++] = c;
}

static void
make_cases(void)
{
	add_case(attention_case(2, 20, 0, 0));
	add_case(attention_case(1, 32, 0, 0));
	add_case(attention_case(1, 3, 0, 0));
	add_case(attention_case(1, 16, 1, 0));
	add_case(attention_case(2, 16, 20, 0));
	add_case(attention_case(1, 16, 64, 0));
	add_case(attention_case(2, 8, 0, 12));
	add_case(attention_case(1, 8, 100, 60));
	add_case(attention_case(1, 70, 0, 0));
	add_case(attention_case(1, 130, 9, 0));
	add_case(attention_bf16_case(2, 20, 0, 0));
	add_case(attention_bf16_case(1, 33, 0, 0));
	add_case(attention_bf16_case(2, 16, 20, 0));
	add_case(attention_bf16_case(1, 8, 100, 60));
	add_case(attention_bf16_case(1, 96, 0, 0));
	add_case(attention_bf16_case(1, 130, 9, 0));
	for (uint16_t fn = NORM_LAYER; fn <= NORM_RMS; fn++)
	{
		add_case(norm_case(fn, 37));
		add_case(norm_case(fn, 64));
		add_case(norm_case(fn, 1030));
	}
	add_case(rotary_case(2, 12, 12, false, 1024));
	add_case(rotary_case(1, 40, 22, true, 1024));
	add_case(gate_case(UNARY_GELU, 37, false));
	add_case(gate_case(UNARY_SWISH, 32, true));
	for (uint16_t fn = POOL_FIRST; fn < POOL_FUNCTIONS; fn++)
		add_case(pool_case(fn, 37));
}

/* A neighbour: ordinary, or with NaN of some payload, infinities, huge and tiny numbers. */
static void
fill_stranger(float *x, size_t count)
{
	static const float odd[] = {INFINITY, -INFINITY, 1e38f, -3e38f, 1e-40f, 0, -0.0f};
	uint64_t	kind = sequence_random() % 4;

	for (size_t i = 0; i < count; i++)
	{
		uint32_t	nan = 0x7FC00000u | (uint32_t) (sequence_random() & 0x803FFFFF);

		x[i] = sequence_uniform() * 3;
		if (kind == 1 && sequence_random() % 5 == 0)
			x[i] = odd[sequence_random() % 7];
		if (kind == 2 && sequence_random() % 5 == 0)
			memcpy(&x[i], &nan, sizeof(nan));
	}
}

/* A row of the length among others; where: 0 first, 1 last, 2 between. */
static struct batch
make_batch(uint32_t length, int where)
{
	struct batch batch = {.rows = 1};
	uint32_t	before = where == 0 ? 0 : 1 + (uint32_t) (sequence_random() % 8);
	uint32_t	after = where == 1 ? 0 : 1 + (uint32_t) (sequence_random() % 8);

	batch.place = before;
	batch.rows = before + 1 + after;
	for (uint32_t row = 0; row < batch.rows; row++)
	{
		uint32_t	other = sequence_random() % 4 == 0 ? 0 : lengths[sequence_random() % (LENGTHS - 1)];

		if (other > 128 && sequence_random() % 3 > 0)
			other = 5;
		if (row == batch.place)
			other = length;
		else if (batch.row_off[row] + other + length > TOKENS_MAX)
			other = 0;
		batch.row_off[row + 1] = batch.row_off[row] + other;
	}
	return batch;
}

/* Whether the row has the bits of `alone` at some places of some batches. */
static bool
row_is_itself(struct sequence_case *c, const float *row, const float *row_second, uint32_t length, const float *alone)
{
	size_t		in = sequence_in(c);
	size_t		out = sequence_out(c);
	size_t		count = (sequence_by_rows(c) ? 1 : length) * out;
	float	   *x = case_alloc(TOKENS_MAX * in * sizeof(float));
	float	   *second = case_alloc(TOKENS_MAX * in * sizeof(float));
	float	   *y = case_alloc((TOKENS_MAX + ROWS_MAX) * out * sizeof(float));
	bool		same = true;

	for (int where = 0; where < 3 && same; where++)
	{
		struct batch batch = make_batch(length, where);
		uint32_t	first = batch.row_off[batch.place];

		for (uint32_t r = 0; r < batch.rows; r++)
		{
			fill_stranger(x + batch.row_off[r] * in, (batch.row_off[r + 1] - batch.row_off[r]) * in);
			fill_stranger(second + batch.row_off[r] * in, (batch.row_off[r + 1] - batch.row_off[r]) * in);
		}
		memcpy(x + first * in, row, length * in * sizeof(float));
		memcpy(second + first * in, row_second, length * in * sizeof(float));
		memset(y, 0xAA, (batch.row_off[batch.rows] + batch.rows) * out * sizeof(float));
		same = sequence_run(c, batch.rows, batch.row_off, x, second, y, NULL) &&
			memcmp(y + (sequence_by_rows(c) ? batch.place : first) * out, alone, count * sizeof(float)) == 0;
	}
	free(x);
	free(second);
	free(y);
	return same;
}

/*
 * All lengths of a case.  odd: the row itself holds NaN and infinities.  reference: what
 * another instruction set made of the same rows, to be made if empty.
 */
static bool
check_case(struct sequence_case *c, struct device *device, bool odd, float **reference)
{
	size_t		in = sequence_in(c);
	size_t		out = sequence_out(c);
	bool		same = true;

	if (!case_compile(&c->op, device))
		return false;
	for (int l = 0; l < LENGTHS && !(lengths[l] > 65 && case_hurries(device)); l++)
	{
		uint32_t	length = lengths[l];
		uint32_t	row_off[2] = {0, length};
		size_t		count = (sequence_by_rows(c) ? 1 : length) * out;
		float	   *row = case_alloc(length * in * sizeof(float));
		float	   *second = case_alloc(length * in * sizeof(float));
		float	   *alone = case_alloc(count * sizeof(float));

		sequence_seed = 88172645463325252u + (uint64_t) l;
		sequence_fill(row, length * in, 3);
		sequence_fill(second, length * in, 3);
		if (odd)
		{
			fill_stranger(row, length * in / 7 + 1);
			fill_stranger(second, length * in / 3 + 1);
		}
		if (!sequence_run(c, 1, row_off, row, second, alone, NULL) ||
			!row_is_itself(c, row, second, length, alone))
		{
			printf("# %s, function %d, a row of %u tokens\n", c->name, c->op.op.fn, length);
			same = false;
		}
		if (reference[l] != NULL && memcmp(reference[l], alone, count * sizeof(float)) != 0)
		{
			printf("# %s, function %d, a row of %u tokens: bits of another instruction set\n", c->name, c->op.op.fn, length);
			same = false;
		}
		if (reference[l] == NULL)
			reference[l] = alone;
		else
			free(alone);
		free(row);
		free(second);
	}
	case_free(&c->op);
	return same;
}

static float *references[CASES][2][10];

static void
references_forget(void)
{
	for (int i = 0; i < cases_count; i++)
		for (int odd = 0; odd < 2; odd++)
			for (int l = 0; l < 10; l++)
			{
				free(references[i][odd][l]);
				references[i][odd][l] = NULL;
			}
}

static bool
check_op(struct device *device, uint16_t op)
{
	bool		same = true;

	for (int i = 0; i < cases_count; i++)
		for (int odd = 0; odd < 2; odd++)
			if (cases[i].op.op.op == op && sequence_supported(&cases[i], device) && !check_case(&cases[i], device, odd != 0, references[i][odd]))
				same = false;
	return same;
}

/* ---- kernels that are wrong on purpose ---- */

static const struct cpu_sequence_kernels *right;
static const float *batch_first;	/* where q of the batch's first token lies */

/* Keys in blocks that are counted from the batch's first token. */
static void
attention_by_batch(const struct cpu_attention *a, int64_t q0, int64_t q1)
{
	const float *q = a->q;
	const float *k = a->k;
	const float *v = a->v;
	int64_t		begin = (q - batch_first) / a->x_step;

	for (int64_t i = q0; i < q1; i++)
	{
		float		sum = 0;
		float		block = 0;
		float		y[64] = {0};
		float		y_block[64] = {0};

		for (int64_t j = 0; j < a->length; j++)
		{
			float		score = 0;

			for (int64_t d = 0; d < a->size; d++)
				score = fmaf(q[i * a->x_step + d], k[j * a->x_step + d], score);
			score = expf(score * (float) a->scale);
			block += score;
			for (int64_t d = 0; d < a->size; d++)
				y_block[d] = fmaf(score, v[j * a->x_step + d], y_block[d]);
			if ((begin + j) % 64 == 63 || j == a->length - 1)
			{
				sum += block;
				block = 0;
				for (int64_t d = 0; d < a->size; d++)
				{
					y[d] += y_block[d];
					y_block[d] = 0;
				}
			}
		}
		for (int64_t d = 0; d < a->size; d++)
			((float *) a->y)[i * a->y_step + d] = y[d] / sum;
	}
}

/* Rows at odd places are added up from the end. */
static void
pool_from_the_end(int fn, const float *x, int64_t step, int64_t place, int64_t count, float *y, int64_t n)
{
	bool		odd_place = (uintptr_t) x / sizeof(float) / (size_t) step % 2 == 1;

	right->pool(fn, odd_place ? x + (count - 1) * step : x, odd_place ? -step : step, place, count, y, n);
}

static void
check_the_checker(const char *arch)
{
	struct device *device = case_device("cpu", arch, 1);
	struct cpu_device *cpu = (struct cpu_device *) device;
	const struct cpu_kernels *kernels = cpu->kernels;
	struct cpu_kernels wrong = *kernels;
	struct sequence_case heads = attention_case(1, 16, 0, 0);
	struct sequence_case mean = pool_case(POOL_MEAN, 16);
	float	   *none[10] = {NULL};
	float	   *nobody[10] = {NULL};
	float	   *made[10] = {NULL};

	right = &kernels->sequence;
	cpu->kernels = &wrong;
	tap_ok(check_case(&heads, device, false, none), "%s: the copy of the kernels passes", arch);
	wrong.sequence.attention = attention_by_batch;
	batch_first = NULL;
	tap_ok(!check_case(&heads, device, false, nobody), "%s: blocks counted from the batch's first token are caught", arch);
	wrong.sequence.pool = pool_from_the_end;
	tap_ok(!check_case(&mean, device, false, made), "%s: an order that depends on a row's place is caught", arch);
	cpu->kernels = kernels;
	device->ops->close(device);
	for (int l = 0; l < 10; l++)
	{
		free(none[l]);
		free(nobody[l]);
		free(made[l]);
	}
}

static void
check_device(struct device *device, const char *name)
{
	static const struct
	{
		uint16_t	op;
		const char *name;
	}			ops[] = {
		{DEVICE_OP_ATTENTION, "attention"}, {DEVICE_OP_NORM, "norms"}, {DEVICE_OP_ROTARY, "rotations"},
		{DEVICE_OP_GATE, "gates"}, {DEVICE_OP_POOL, "pooling"}
	};

	for (size_t o = 0; o < sizeof(ops) / sizeof(*ops); o++)
		tap_ok(check_op(device, ops[o].op), "%s: %s", name, ops[o].name);
}

int
main(void)
{
	static const char *const archs[] = {"scalar", "avx2", "avx512", "avx512-bf16"};
	struct device *cuda = case_cuda_device(1);

	make_cases();
	for (size_t a = 0; a < sizeof(archs) / sizeof(*archs) && case_wants("cpu"); a++)
		for (int threads = 1; threads <= 2; threads++)
			if (rows_on_cpu(archs[a], threads, check_device) && threads == 1)
				check_the_checker(archs[a]);
	if (cuda != NULL)
	{
		/* which has bits of its own */
		references_forget();
		check_device(cuda, "cuda");
		device_close(cuda);
	}
	else if (case_wants("cuda"))
		tap_skip("cuda", "cannot be opened");
	references_forget();
	for (int i = 0; i < cases_count; i++)
		sequence_free(&cases[i]);
	return tap_done();
}
