/*
 * primitives.c
 *	  Every primitive against a naive reference in double: its functions, its types, shapes
 *	  that broadcast, stride and leave tails, operands with and without rows.
 *
 * A case table per primitive makes op_cases for compare().
 */
#include <math.h>

#include "compare.h"
#include "harness.h"
#include "tap.h"

static const char *const type_names[] = {"", "f32", "f64", "i32", "i64", "bool", "string"};

static uint8_t
lead_of(const struct device_tensor *tensors, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (tensors[i].lead != DEVICE_LEAD_NONE)
			return tensors[i].lead;
	return DEVICE_LEAD_NONE;
}

static void
test_unary(uint8_t type)
{
	static const char *const shapes[] = {
		"", "1", "7", "16", "3,11", "2,3,5", "0", "31", "33", "255", "256", "257", "1023", "1025"
	};
	bool		integer = type == DEVICE_I32 || type == DEVICE_I64;

	for (uint16_t fn = 0; fn < UNARY_FUNCTIONS; fn++)
	{
		bool		fine = true;
		bool		tests = fn == UNARY_IS_NAN || fn == UNARY_IS_INF;
		enum values values = fn == UNARY_LOG || fn == UNARY_SQRT || fn == UNARY_RECIPROCAL ? VALUES_POSITIVE :
			fn == UNARY_ASIN || fn == UNARY_ACOS || fn == UNARY_ATANH ? VALUES_UNIT :
			fn == UNARY_ACOSH ? VALUES_ABOVE_ONE : VALUES_ANY;

		if (fn == UNARY_PROBIT ||
			(type == DEVICE_BOOL ? fn != UNARY_NOT && fn != UNARY_NONE :
			 integer ? fn != UNARY_NONE && fn != UNARY_ABS && fn != UNARY_NEG && fn != UNARY_SIGN &&
			 fn != UNARY_RELU && fn != UNARY_CLIP : fn == UNARY_NOT))
			continue;
		for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++)
			for (uint8_t lead = DEVICE_LEAD_NONE; lead <= DEVICE_LEAD_ROWS; lead++)
			{
				struct op_case c = {.op = {.op = DEVICE_OP_UNARY, .fn = fn, .f = {0.5, 1.5}}, .inputs_count = 1};

				if (fn == UNARY_CLIP && integer)
					c.op.f[0] = -2, c.op.f[1] = 3;
				c.tensors[0] = case_shaped(type, lead, shapes[s]);
				c.tensors[1] = case_shaped(tests ? DEVICE_BOOL : type, lead, shapes[s]);
				fine = compare(c, values, fn == UNARY_TAN ? 1e3 : 1) && fine;
			}
		tap_ok(fine, "unary function %d of %s", fn, type_names[type]);
	}
}

static void
test_binary(uint8_t type)
{
	static const char *const shapes[][3] = {
		{"7", "7", "7"}, {"3,5", "5", "3,5"}, {"3,5", "3,1", "3,5"}, {"1,4", "3,1", "3,4"},
		{"", "6", "6"}, {"33", "1", "33"}, {"2,3,4", "3,1", "2,3,4"}, {"4,1,2", "1,3,1", "4,3,2"}, {"0", "1", "0"},
		{"255", "255", "255"}, {"256", "", "256"}, {"257", "257", "257"}, {"1025", "1025", "1025"}, {"8,64", "64", "8,64"},
		{"1,64", "8,1", "8,64"}, {"3,1,4", "2,4", "3,2,4"}, {"31,33", "31,1", "31,33"}
	};

	for (uint16_t fn = BINARY_ADD; fn < BINARY_FUNCTIONS; fn++)
	{
		bool		fine = true;
		bool		logic = fn >= BINARY_AND && fn <= BINARY_XOR;
		bool		bits = fn >= BINARY_BIT_AND;
		bool		integer = type == DEVICE_I32 || type == DEVICE_I64;
		enum values values = fn == BINARY_DIV || fn == BINARY_POW || fn == BINARY_MOD || fn == BINARY_FMOD
			? VALUES_POSITIVE : VALUES_ANY;

		if (type == DEVICE_BOOL ? !logic && fn != BINARY_EQUAL : logic || (bits && !integer))
			continue;
		if (integer && fn == BINARY_POW)
			values = VALUES_SMALL;
		for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++)
			for (int leads = 0; leads < 4; leads++)
			{
				struct op_case c = {.op = {.op = DEVICE_OP_BINARY, .fn = fn}, .inputs_count = 2};

				c.tensors[0] = case_shaped(type, leads & 1, shapes[s][0]);
				c.tensors[1] = case_shaped(type, leads >> 1, shapes[s][1]);
				c.tensors[2] = case_shaped(fn >= BINARY_EQUAL && !bits ? DEVICE_BOOL : type, lead_of(c.tensors, 2), shapes[s][2]);
				fine = compare(c, values, fn == BINARY_POW || fn == BINARY_MOD ? 10 : 1) && fine;
			}
		tap_ok(fine, "binary function %d of %s", fn, type_names[type]);
	}
}

static void
test_where(uint8_t type)
{
	static const char *const shapes[][4] = {
		{"5", "5", "5", "5"}, {"3,1", "4", "1", "3,4"}, {"", "2,3", "3", "2,3"}, {"2,3", "", "", "2,3"},
		{"8,64", "64", "8,1", "8,64"}, {"256", "256", "256", "256"}, {"1023", "1023", "", "1023"}, {"0", "0", "0", "0"}
	};
	bool		fine = true;

	for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++)
		for (int leads = 0; leads < 8; leads++)
		{
			struct op_case c = {.op = {.op = DEVICE_OP_WHERE}, .inputs_count = 3};

			c.tensors[0] = case_shaped(DEVICE_BOOL, leads & 1, shapes[s][0]);
			c.tensors[1] = case_shaped(type, leads >> 1 & 1, shapes[s][1]);
			c.tensors[2] = case_shaped(type, leads >> 2, shapes[s][2]);
			c.tensors[3] = case_shaped(type, lead_of(c.tensors, 3), shapes[s][3]);
			fine = compare(c, VALUES_ANY, 1) && fine;
		}
	tap_ok(fine, "where of %s", type_names[type]);
}

static void
test_cast(uint8_t from)
{
	static const char *const shapes[] = {"3,7", "", "0", "64", "257", "1025"};
	bool		fine = true;

	for (uint8_t to = DEVICE_F32; to <= DEVICE_BOOL; to++)
		for (size_t n = 0; n < sizeof(shapes) / sizeof(*shapes); n++)
		{
			struct op_case c = {.op = {.op = DEVICE_OP_CAST}, .inputs_count = 1};

			c.tensors[0] = case_shaped(from, DEVICE_LEAD_ROWS, shapes[n]);
			c.tensors[1] = case_shaped(to, DEVICE_LEAD_ROWS, shapes[n]);
			fine = compare(c, VALUES_ANY, 1) && fine;
		}
	tap_ok(fine, "cast from %s to every number", type_names[from]);
}

static void
test_products(uint8_t type)
{
	static const struct
	{
		const char *x;
		int64_t		k;
		int64_t		n;
		const char *y;
		const char *b;				/* NULL: none */
		uint16_t	fn;
	}			gemms[] = {
		{"5", 5, 3, "3", NULL, UNARY_NONE}, {"1,5", 5, 3, "1,3", "3", UNARY_NONE},
		{"4,17", 17, 40, "4,40", "40", UNARY_RELU}, {"2,3,9", 9, 33, "2,3,33", "1", UNARY_SIGMOID},
		{"8,20", 20, 64, "8,64", "", UNARY_TANH}, {"15,31", 31, 70, "15,70", "70", UNARY_LEAKY_RELU},
		{"3", 3, 1, "1", "1", UNARY_NONE}, {"0", 0, 4, "4", "4", UNARY_NONE}, {"3,2", 2, 130, "3,130", "130", UNARY_NONE}
	};
	static const char *const matmuls[][3] = {
		{"3,4", "4,5", "3,5"}, {"2,3,4", "4,5", "2,3,5"}, {"2,1,3,4", "3,4,35", "2,3,3,35"},
		{"1,7", "7,1", "1,1"}, {"9,40", "40,33", "9,33"}
	};
	bool		fine = true;

	if (type == DEVICE_F32 || type == DEVICE_F64)
	{
		for (size_t g = 0; g < sizeof(gemms) / sizeof(*gemms); g++)
			for (int transposed = 0; transposed < 2; transposed++)
			{
				struct op_case c = {.op = {.op = DEVICE_OP_GEMM, .fn = gemms[g].fn, .f = {0.5, 1.5}}};
				int64_t		k = gemms[g].k;
				int64_t		n = gemms[g].n;
				void	   *w = case_alloc((size_t) (k * n) * 8);

				for (int64_t i = 0; i < k * n; i++)
					element_set(type, w, (size_t) i, value(VALUES_UNIT, type, 0));
				c.weight = (struct device_weight_desc) {
					.type = type, .k = k, .n = n, .stride_k = transposed ? 1 : n, .stride_n = transposed ? k : 1, .data = w
				};
				c.tensors[c.inputs_count++] = case_shaped(type, DEVICE_LEAD_ROWS, gemms[g].x);
				if (gemms[g].b != NULL)
					c.tensors[c.inputs_count++] = case_shaped(type, DEVICE_LEAD_NONE, gemms[g].b);
				c.tensors[c.inputs_count] = case_shaped(type, DEVICE_LEAD_ROWS, gemms[g].y);
				fine = compare(c, VALUES_UNIT, 10) && fine;
				free(w);
			}
		tap_ok(fine, "gemm of %s", type_names[type]);
	}
	fine = true;
	for (size_t m = 0; m < sizeof(matmuls) / sizeof(*matmuls); m++)
		for (int leads = 0; leads < 4; leads++)
		{
			struct op_case c = {.op = {.op = DEVICE_OP_MATMUL}, .inputs_count = 2};

			c.tensors[0] = case_shaped(type, leads & 1, matmuls[m][0]);
			c.tensors[1] = case_shaped(type, leads >> 1, matmuls[m][1]);
			c.tensors[2] = case_shaped(type, lead_of(c.tensors, 2), matmuls[m][2]);
			fine = compare(c, VALUES_UNIT, 10) && fine;
		}
	tap_ok(fine, "matmul of %s", type_names[type]);
}

static void
test_layout(uint8_t type)
{
	static const struct
	{
		const char *x;
		const char *y;
		int64_t		i[5];
	}			copies[] = {
		{"2,3", "3,2", {0, 1, 3}},		/* transpose */
		{"2,3,4", "4,3,2", {0, 1, 4, 12}},
		{"6", "2,3", {0, 3, 1}},		/* reshape */
		{"10", "4", {1, 2}},			/* slice */
		{"5", "5", {4, -1}},			/* flip */
		{"3", "4,3", {0, 0, 1}},		/* expand */
		{"7", "", {3}},
		{"2,3,4", "2,4", {4, 12, 1}}, {"0", "0", {0, 1}},
		{"33,65", "65,33", {0, 1, 65}}, {"2,16,64", "16,2,64", {0, 64, 1024, 1}}, {"2,16,6", "16,2,6", {0, 6, 96, 1}},
		{"1025", "1025", {1024, -1}}, {"3,257", "257,3", {770, -1, -257}}, {"1300", "257", {7, 5}},
		{"15,17", "17,15", {0, 1, 17}}, {"16,17", "17,16", {0, 1, 17}}, {"31,16", "16,31", {0, 1, 16}}, {"32,32", "32,32", {0, 1, 32}},
		{"3,18,17", "3,17,18", {0, 306, 1, 17}}, {"2,3,16,17", "3,2,17,16", {0, 272, 816, 1, 17}}, {"17,2,33", "33,2,17", {0, 1, 33, 66}},
		{"20,33", "33,20", {659, -1, -33}}, {"16,129", "64,16", {1, 2, 129}}, {"20,40", "2,16,16", {0, 20, 1, 40}},
		{"17,0,33", "33,0,17", {0, 1, 33, 0}}, {"16,17", "2,17,16", {0, 0, 1, 17}},
		{"1028", "1024", {4, 1}}, {"1027", "1024", {3, 1}}, {"64", "5,64", {0, 0, 1}}, {"4,8", "2,4,2", {0, 4, 8, 2}}
	};
	bool		fine = true;

	for (size_t n = 0; n < sizeof(copies) / sizeof(*copies); n++)
		for (uint8_t lead = DEVICE_LEAD_NONE; lead <= DEVICE_LEAD_ROWS; lead++)
		{
			struct op_case c = {.op = {.op = DEVICE_OP_COPY}, .inputs_count = 1};

			memcpy(c.op.i, copies[n].i, sizeof(copies[n].i));
			c.tensors[0] = case_shaped(type, lead, copies[n].x);
			c.tensors[1] = case_shaped(type, lead, copies[n].y);
			fine = compare(c, VALUES_ANY, 1) && fine;
		}
	tap_ok(fine, "copy of %s", type_names[type]);

	fine = true;
	for (int leads = 0; leads < 8; leads++)
		for (int axis = 0; axis < 2; axis++)
		{
			struct op_case c = {.op = {.op = DEVICE_OP_CONCAT, .i = {axis}}, .inputs_count = 3};

			c.tensors[0] = case_shaped(type, leads & 1, axis ? "2,3" : "3,2");
			c.tensors[1] = case_shaped(type, leads >> 1 & 1, axis ? "2,0" : "0,2");
			c.tensors[2] = case_shaped(type, leads >> 2, axis ? "2,4" : "4,2");
			c.tensors[3] = case_shaped(type, lead_of(c.tensors, 3), axis ? "2,7" : "7,2");
			fine = compare(c, VALUES_ANY, 1) && fine;
			c.tensors[0] = case_shaped(type, leads & 1, axis ? "5,64" : "64,5");
			c.tensors[1] = case_shaped(type, leads >> 1 & 1, axis ? "5,32" : "33,5");
			c.tensors[2] = case_shaped(type, leads >> 2, axis ? "5,160" : "160,5");
			c.tensors[3] = case_shaped(type, lead_of(c.tensors, 3), axis ? "5,256" : "257,5");
			fine = compare(c, VALUES_ANY, 1) && fine;
		}
	for (int mixed = 0; mixed < 2; mixed++)
	{
		struct op_case c = {.op = {.op = DEVICE_OP_CONCAT, .i = {0}}, .inputs_count = CASE_INPUTS};

		/* a column each, as of a table */
		for (int i = 0; i < CASE_INPUTS; i++)
			c.tensors[i] = case_shaped(type, mixed ? i % 2 : DEVICE_LEAD_ROWS, mixed && i % 7 == 3 ? "0" : "1");
		c.tensors[CASE_INPUTS] = case_tensor(type, DEVICE_LEAD_ROWS, 1, (int64_t[]) {mixed ? CASE_INPUTS - (CASE_INPUTS + 3) / 7 : CASE_INPUTS});
		fine = compare(c, VALUES_ANY, 1) && fine;
	}
	tap_ok(fine, "concat of %s", type_names[type]);

	fine = true;
	for (int leads = 0; leads < 4; leads++)
		for (int axis = 0; axis < 2; axis++)
			for (int wide = 0; wide < 2; wide++)
			{
				struct op_case c = {.op = {.op = DEVICE_OP_GATHER, .i = {axis}}, .inputs_count = 2};

				c.tensors[0] = case_shaped(type, leads & 1, axis ? "2,3" : "3,4");
				c.tensors[1] = case_shaped(wide ? DEVICE_I64 : DEVICE_I32, leads >> 1, "2,2");
				c.tensors[2] = case_shaped(type, lead_of(c.tensors, 2), axis ? "2,2,2" : "2,2,4");
				fine = compare(c, VALUES_INDEX, 1) && fine;
				c.tensors[0] = case_shaped(type, leads & 1, axis ? "5,3,33" : "3,64");
				c.tensors[1] = case_shaped(wide ? DEVICE_I64 : DEVICE_I32, leads >> 1, "31");
				c.tensors[2] = case_shaped(type, lead_of(c.tensors, 2), axis ? "5,31,33" : "31,64");
				fine = compare(c, VALUES_INDEX, 1) && fine;
				c.tensors[0] = case_shaped(type, leads & 1, axis ? "0,3" : "3");
				c.tensors[1] = case_shaped(wide ? DEVICE_I64 : DEVICE_I32, leads >> 1, axis ? "5" : "257");
				c.tensors[2] = case_shaped(type, lead_of(c.tensors, 2), axis ? "0,5" : "257");
				fine = compare(c, VALUES_INDEX, 1) && fine;
			}
	tap_ok(fine, "gather of %s", type_names[type]);
}

static void
test_reduce(uint8_t type)
{
	static const struct
	{
		const char *x;
		int64_t		axes;
		const char *y;
	}			shapes[] = {
		{"7", 1, "1"}, {"50", 1, "1"}, {"3,5", 2, "3"}, {"3,5", 1, "5"}, {"3,5", 3, ""}, {"2,3,4", 5, "3"},
		{"2,3,4", 2, "2,4"}, {"4", 0, "4"}, {"1,3,1", 5, "3"}, {"600,2", 1, "2"},
		{"3,8", 2, "3"}, {"3,9", 2, "3"}, {"5,31", 2, "5"}, {"33,65", 2, "33"}, {"33,65", 1, "65"}, {"17,257", 1, "257"},
		{"2,3,4,5", 5, "3,5"}, {"5,3,2,4", 10, "5,2"}, {"3,2,400,2", 10, "3,400"}, {"1023", 1, ""}, {"2048", 1, ""}, {"2049", 1, ""},
		{"2049,2", 1, "2"}, {"2,1500,2", 2, "2,2"}, {"2,2,1100", 5, "2"}, {"0,3", 2, "0"}
	};
	bool		integer = type != DEVICE_F32 && type != DEVICE_F64;

	for (uint16_t fn = REDUCE_SUM; fn < REDUCE_FUNCTIONS; fn++)
	{
		bool		fine = true;

		if (type == DEVICE_BOOL && fn != REDUCE_MAX && fn != REDUCE_MIN)
			continue;
		for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++)
		{
			struct op_case c = {.op = {.op = DEVICE_OP_REDUCE, .fn = fn, .i = {shapes[s].axes}}, .inputs_count = 1};
			struct device_tensor x = case_shaped(type, DEVICE_LEAD_ROWS, shapes[s].x);
			bool		many = device_item_elements(&x) >= 50;

			if (fn == REDUCE_PROD && many)
				continue;
			c.tensors[0] = x;
			c.tensors[1] = case_shaped(type, DEVICE_LEAD_ROWS, shapes[s].y);
			fine = compare(c, integer && fn == REDUCE_PROD ? VALUES_SMALL :
						   fn == REDUCE_LOG_SUM || integer ? VALUES_POSITIVE : VALUES_ANY,
						   device_item_elements(&x) > 512 ? 60 : 20) && fine;
		}
		tap_ok(fine, "reduce function %d of %s", fn, type_names[type]);
	}
}

static void
test_vectors(uint8_t type)
{
	static const struct
	{
		const char *x;
		int64_t		axis;
		int64_t		joined;
		const char *arg;			/* shape of ARG's output, or NULL */
	}			shapes[] = {
		{"7", 0, 0, ""}, {"40", 0, 0, "1"}, {"3,5", 1, 0, "3"}, {"3,5", 0, 0, "5"}, {"2,3,4", 1, 0, "2,4"},
		{"2,3,4", 1, 1, NULL}, {"2,3,4", 0, 2, NULL}, {"1", 0, 0, ""},
		{"5,8", 1, 0, "5"}, {"5,9", 1, 0, "5"}, {"9,31", 1, 0, "9"}, {"33,33", 1, 0, "33"}, {"33,33", 0, 0, "33"}, {"2,257", 1, 0, "2"},
		{"7,5,31", 1, 0, "7,31"}, {"1025", 0, 0, ""}, {"2049", 0, 0, ""}, {"2049,2", 0, 0, "2"}, {"3,0", 1, 0, NULL}, {"0,3", 1, 0, "0"}
	};
	bool		floating = type == DEVICE_F32 || type == DEVICE_F64;
	bool		fine = true;

	for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++)
	{
		struct op_case c = {.op = {.i = {shapes[s].axis, shapes[s].joined}}, .inputs_count = 1};

		c.tensors[0] = case_shaped(type, DEVICE_LEAD_ROWS, shapes[s].x);
		c.tensors[1] = c.tensors[0];
		c.op.op = DEVICE_OP_SOFTMAX;
		for (c.op.fn = SOFTMAX_PLAIN; floating && c.op.fn <= SOFTMAX_ZERO; c.op.fn++)
			fine = compare(c, VALUES_ANY, 4) && fine;
		c.op.op = DEVICE_OP_NORMALIZE;
		for (c.op.fn = NORMALIZE_MAX; floating && c.op.fn <= NORMALIZE_L2; c.op.fn++)
			fine = compare(c, c.op.fn == NORMALIZE_MAX ? VALUES_POSITIVE : VALUES_ANY, 4) && fine;
		if (shapes[s].arg == NULL)
			continue;
		c.op.op = DEVICE_OP_ARG;
		c.tensors[1] = case_shaped(DEVICE_I64, DEVICE_LEAD_ROWS, shapes[s].arg);
		for (c.op.fn = ARG_MAX; c.op.fn <= ARG_MIN; c.op.fn++)
			for (c.op.i[2] = 0; c.op.i[2] < 2; c.op.i[2]++)
				fine = compare(c, VALUES_ANY, 1) && fine;
	}
	tap_ok(fine, "softmax, normalize, arg of %s", type_names[type]);
}

static void
test_order(uint8_t type)
{
	static const struct
	{
		const char *x;
		int64_t		axis;
		const char *top;			/* shape of TOPK's output */
	}			shapes[] = {{"7", 0, "3"}, {"40", 0, "40"}, {"3,5", 0, "1,5"}, {"2,9,4", 1, "2,4,4"}, {"5", 0, "0"}, {"0", 0, "0"},
		{"3,33", 1, "3,31"}, {"257", 0, "5"}, {"1024", 0, "64"}, {"1025", 0, "64"}, {"1025", 0, "65"}, {"1100,2", 0, "3,2"},
		{"3,8", 1, "3,1"}, {"11,9", 1, "11,9"}, {"31,31", 1, "31,2"}, {"33,32", 1, "33,2"}, {"43,33", 1, "43,2"}, {"0,40", 1, "0,2"}};
	bool		fine = true;

	for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++)
	{
		struct op_case c = {.op = {.op = DEVICE_OP_CUMSUM, .i = {shapes[s].axis}}, .inputs_count = 1};

		c.tensors[0] = c.tensors[1] = case_shaped(type, DEVICE_LEAD_ROWS, shapes[s].x);
		for (int form = 0; form < 4; form++)
		{
			c.op.i[1] = form & 1;
			c.op.i[2] = form >> 1;
			/* what is added one after the other errs the more the longer it goes on */
			fine = compare(c, VALUES_ANY, device_item_elements(&c.tensors[0]) > 512 ? 400 : 20) && fine;
		}
		c.op = (struct device_op) {.op = DEVICE_OP_TOPK, .i = {shapes[s].axis}};
		c.tensors[1] = case_shaped(DEVICE_I64, DEVICE_LEAD_ROWS, shapes[s].top);
		for (c.op.fn = TOPK_LARGEST; c.op.fn <= TOPK_SMALLEST; c.op.fn++)
			fine = compare(c, VALUES_ANY, 1) && fine;
	}
	tap_ok(fine, "cumulative sum, top k of %s", type_names[type]);
}

static void
test_places(uint8_t type)
{
	static const char *const singles[][3] = {
		{"33", "31", "31"}, {"33", "32", "32"}, {"33", "33", "33"}, {"3", "1", "1"}, {"3", "0", "0"}, {"3,16", "7", "7,16"}, {"3,17", "7", "7,17"},
		{"3,2", "17", "17,2"}, {"3,11", "3", "3,11"}
	};
	bool		fine = true;

	for (uint8_t leads = 0; leads < 8; leads++)
		for (size_t s = 0; s < sizeof(singles) / sizeof(*singles); s++)
		{
			/* of updates of one place the last stays, so that it shows in which order they come */
			struct op_case c = {.op = {.op = DEVICE_OP_SCATTER, .fn = SCATTER_SET}, .inputs_count = 3};

			c.tensors[0] = case_shaped(type, leads & 1, singles[s][0]);
			c.tensors[1] = case_shaped(DEVICE_I64, leads >> 1 & 1, singles[s][1]);
			c.tensors[2] = case_shaped(type, leads >> 2 & 1, singles[s][2]);
			c.tensors[3] = case_shaped(type, lead_of(c.tensors, 3), singles[s][0]);
			fine = compare(c, VALUES_PLACE, 1) && fine;
		}
	for (uint8_t leads = 0; leads < 8; leads++)
		for (uint16_t fn = SCATTER_SET; fn <= (type == DEVICE_BOOL ? SCATTER_SET : SCATTER_MIN); fn++)
		{
			struct op_case c = {.op = {.op = DEVICE_OP_SCATTER, .fn = fn}, .inputs_count = 3};

			c.tensors[0] = case_shaped(type, leads & 1, "3,5");
			c.tensors[1] = case_shaped(DEVICE_I64, leads >> 1 & 1, "4");
			c.tensors[2] = case_shaped(type, leads >> 2 & 1, "4,5");
			c.tensors[3] = case_shaped(type, lead_of(c.tensors, 3), "3,5");
			fine = compare(c, VALUES_PLACE, 1) && fine;
			c.tensors[0] = case_shaped(type, leads & 1, "33");
			c.tensors[1] = case_shaped(DEVICE_I64, leads >> 1 & 1, "65");
			c.tensors[2] = case_shaped(type, leads >> 2 & 1, "65");
			c.tensors[3] = case_shaped(type, lead_of(c.tensors, 3), "33");
			fine = (fn == SCATTER_MUL || compare(c, VALUES_PLACE, 20)) && fine;
			c.tensors[0] = case_shaped(type, leads & 1, "3,257");
			c.tensors[1] = case_shaped(DEVICE_I64, leads >> 1 & 1, "2");
			c.tensors[2] = case_shaped(type, leads >> 2 & 1, "2,257");
			c.tensors[3] = case_shaped(type, lead_of(c.tensors, 3), "3,257");
			fine = compare(c, VALUES_PLACE, 1) && fine;
		}
	tap_ok(fine, "scatter of %s", type_names[type]);
	if (type == DEVICE_I32 || type == DEVICE_I64)
	{
		struct op_case c = {.op = {.op = DEVICE_OP_OFFSET, .i = {13, 12, 14}}, .inputs_count = 1};

		c.op.i[DEVICE_RANK_MAX] = 2;
		c.tensors[0] = case_shaped(type, DEVICE_LEAD_ROWS, "4,5,3");
		c.tensors[1] = case_shaped(DEVICE_I64, DEVICE_LEAD_ROWS, "4,5");
		tap_ok(compare(c, VALUES_ANY, 1), "offset of %s", type_names[type]);
	}
}

/* Keys 0, 2, 4, … and a NaN, with values 10, 12, …; rows ask for −1 … 7, and the last of them for a NaN. */
static bool
lookup_on(struct device *device, uint8_t key_type, uint8_t value_type, uint32_t keys_count, bool has_default)
{
	bool		nan = key_type != DEVICE_I64 && keys_count > 1;
	void	   *keys = case_alloc(keys_count * 8);
	void	   *values = case_alloc(keys_count * 8);
	void	   *x = case_alloc(9 * ROWS * 8);
	void	   *y = case_alloc(9 * ROWS * 8);
	uint64_t	other = 0;
	uint32_t	errors[ROWS] = {0};
	struct device_lookup table = {keys_count, key_type, value_type, has_default, keys, values, has_default ? &other : NULL};
	struct op_case c = {.op = {.op = DEVICE_OP_LOOKUP, .params = &table}, .inputs_count = 1};
	struct status status;
	bool		fine;

	status_clear(&status);
	for (uint32_t k = 0; k < keys_count; k++)
	{
		element_set(key_type, keys, k, nan && k == keys_count - 1 ? NAN : 2.0 * k);
		element_set(value_type, values, k, 10 + 2.0 * k);
	}
	element_set(value_type, &other, 0, -5);
	for (int i = 0; i < 9 * ROWS; i++)
		element_set(key_type, x, (size_t) i, nan && i == 9 * ROWS - 1 ? NAN : i % 9 - 1);
	c.tensors[0] = case_shaped(key_type, DEVICE_LEAD_ROWS, "9");
	c.tensors[1] = case_shaped(value_type, DEVICE_LEAD_ROWS, "9");
	fine = case_compile(&c, device) && (device->ops->supports(device, &c.op, c.tensors) & DEVICE_SUPPORTS_HOST) == 0 &&
		case_run(&c, ROWS, (void *[]) {x, y}, errors, &status);
	for (int i = 0; i < 9 * ROWS && fine; i++)
	{
		double		v = element_get(key_type, x, (size_t) i);
		uint32_t	numbers = keys_count - nan;
		double		wanted = isnan(v) ? 10 + 2.0 * (keys_count - 1) :
			v >= 0 && fmod(v, 2) == 0 && v / 2 < numbers ? 10 + v : has_default ? -5 : 0;

		fine = element_get(value_type, y, (size_t) i) == wanted && (errors[i / 9] != 0) == !has_default;
		if (!fine)
			printf("# %g gives %g, not %g; row error %u\n", v, element_get(value_type, y, (size_t) i), wanted, errors[i / 9]);
	}
	case_free(&c);
	free(keys);
	free(values);
	free(x);
	free(y);
	return fine;
}

static void
test_lookup(uint8_t key_type)
{
	static const uint32_t counts[] = {0, 1, 2, 3, 4, 31, 257};
	static const uint8_t types[] = {DEVICE_F32, DEVICE_F64, DEVICE_I64};
	bool		fine = true;

	for (int d = 0; d < DEVICES; d++)
		for (size_t n = 0; n < sizeof(counts) / sizeof(*counts) && devices[d] != NULL; n++)
			for (size_t t = 0; t < sizeof(types) / sizeof(*types); t++)
				for (int has_default = 0; has_default < 2; has_default++)
					if (!lookup_on(devices[d], key_type, types[t], counts[n], has_default))
					{
						printf("# %s: %u keys, values %s\n", archs[d], counts[n], type_names[types[t]]);
						fine = false;
					}
	tap_ok(fine, "lookup of %s", type_names[key_type]);
}

static void
test_distance(uint8_t type)
{
	static const char *const shapes[][3] = {{"1", "1,1", "1"}, {"7", "5,7", "5"}, {"2,33", "3,33", "2,3"}, {"4", "0,4", "0"}, {"0", "2,0", "2"}};
	bool		fine = true;

	for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++)
	{
		struct op_case c = {.op = {.op = DEVICE_OP_DISTANCE}, .inputs_count = 2};

		c.tensors[0] = case_shaped(type, DEVICE_LEAD_ROWS, shapes[s][0]);
		c.tensors[1] = case_shaped(type, DEVICE_LEAD_NONE, shapes[s][1]);
		c.tensors[2] = case_shaped(type, DEVICE_LEAD_ROWS, shapes[s][2]);
		fine = compare(c, VALUES_ANY, 4) && fine;
	}
	tap_ok(fine, "distance of %s", type_names[type]);
}

/* Pairs that agree with probabilities p give p: r(i,j) = p(i) / (p(i) + p(j)), within what a round leaves. */
static void
test_couple(void)
{
	static const float p[2][4] = {{0.4f, 0.3f, 0.2f, 0.1f}, {0.05f, 0.7f, 0.05f, 0.2f}};
	float		pairs[2][6];
	float		y[2][4];
	void	   *bindings[2] = {pairs, y};
	struct op_case c = {.op = {.op = DEVICE_OP_COUPLE, .i = {4}}, .inputs_count = 1};
	struct status status;
	bool		fine;

	for (int r = 0; r < 2; r++)
		for (int i = 0, pair = 0; i < 4; i++)
			for (int j = i + 1; j < 4; j++)
				pairs[r][pair++] = p[r][i] / (p[r][i] + p[r][j]);
	c.tensors[0] = case_shaped(DEVICE_F32, DEVICE_LEAD_ROWS, "6");
	c.tensors[1] = case_shaped(DEVICE_F32, DEVICE_LEAD_ROWS, "4");
	status_clear(&status);
	fine = case_compile(&c, devices_any()) && case_run(&c, 2, bindings, NULL, &status);
	for (int r = 0; r < 2; r++)
		for (int i = 0; i < 4; i++)
			fine = fine && fabsf(y[r][i] - p[r][i]) < 0.01f;
	tap_ok(fine, "couple finds the probabilities that its pairs agree with");
	case_free(&c);
	c.op.i[0] = 5;
	tap_ok(!case_compile(&c, devices_any()), "couple refuses another number of pairs");
}

int
main(void)
{
	devices_open();
	for (uint8_t type = DEVICE_F32; type <= DEVICE_BOOL; type++)
	{
		test_unary(type);
		test_binary(type);
		test_where(type);
		test_cast(type);
		if (type != DEVICE_BOOL)
		{
			test_products(type);
			test_vectors(type);
			test_order(type);
		}
		if (type == DEVICE_F32 || type == DEVICE_F64)
			test_distance(type);
		if (type == DEVICE_F32 || type == DEVICE_F64 || type == DEVICE_I64)
			test_lookup(type);
		test_places(type);
		test_layout(type);
		test_reduce(type);
	}
	test_couple();
	devices_close();
	return tap_done();
}
