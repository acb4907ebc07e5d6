/*
 * size.c
 *	  Dimensions that depend on how many texts there are (B) and how long they are (L), and
 *	  shapes made of them.
 */
#include "walk.h"

#include <stdlib.h>
#include <string.h>

struct size
size_of(int64_t constant)
{
	return (struct size) {.constant = constant};
}

struct size
size_batch(void)
{
	return (struct size) {.batch = 1};
}

struct size
size_length(void)
{
	return (struct size) {.length = 1};
}

bool
size_small(struct size size)
{
	return llabs(size.constant) < INT32_MAX && llabs(size.batch) < INT32_MAX && llabs(size.length) < INT32_MAX;
}

bool
size_equal(struct size a, struct size b)
{
	return a.constant == b.constant && a.batch == b.batch && a.length == b.length;
}

bool
size_is(struct size size, int64_t constant)
{
	return size_equal(size, size_of(constant));
}

bool
size_constant(struct size size, int64_t *constant)
{
	*constant = size.constant;
	return size.batch == 0 && size.length == 0;
}

bool
shape_is(const struct fact *fact, uint32_t rank, const struct size *dims)
{
	if (fact->rank != rank)
		return false;
	for (uint32_t i = 0; i < rank; i++)
		if (!size_equal(fact->dims[i], dims[i]))
			return false;
	return true;
}

/* A dimension of 1 stretches; another one that is not equal might. */
bool
shape_broadcast(const struct fact *a, const struct fact *b, struct fact *result)
{
	uint8_t		rank = a->rank > b->rank ? a->rank : b->rank;
	struct size dims[DEVICE_RANK_MAX];

	for (uint8_t i = 0; i < rank; i++)
	{
		struct size one = size_of(1);
		struct size x = i + a->rank < rank ? one : a->dims[i + a->rank - rank];
		struct size y = i + b->rank < rank ? one : b->dims[i + b->rank - rank];

		if (!size_equal(x, y) && !size_is(x, 1) && !size_is(y, 1))
			return false;
		dims[i] = size_is(x, 1) ? y : x;
	}
	memcpy(result->dims, dims, rank * sizeof(*dims));
	result->rank = rank;
	return true;
}

/* Takes a dimension with B or L in it out of the list; false: it is not there. */
static bool
take(struct size *list, uint32_t *count, struct size size)
{
	for (uint32_t i = 0; i < *count; i++)
		if (size_equal(list[i], size))
		{
			list[i] = list[--*count];
			return true;
		}
	return false;
}

/* The product of what is constant, multiples of B or L included; the rest goes to the list. */
static bool
split(const struct size *dims, uint32_t rank, int64_t *product, struct size *rest, uint32_t *rest_count)
{
	*product = 1;
	*rest_count = 0;
	for (uint32_t i = 0; i < rank; i++)
	{
		struct size size = dims[i];
		int64_t		constant;

		if (!size_constant(size, &constant))
		{
			constant = 1;
			if (size.constant == 0 && (size.batch == 0 || size.length == 0))
			{
				constant = size.batch + size.length;
				size = size.batch != 0 ? size_batch() : size_length();
			}
			rest[(*rest_count)++] = size;
		}
		if (constant < 1 || __builtin_mul_overflow(*product, constant, product))
			return false;
	}
	return true;
}

static struct size
times(struct size size, int64_t factor)
{
	return (struct size) {size.constant * factor, size.batch * factor, size.length * factor};
}

/*
 * Both sides have equally many elements for every B and L exactly if their dimensions with
 * B or L are the same ones, and the products of the others are equal; −1 is what is missing.
 */
bool
shape_reshape(const struct fact *fact, const struct fact *wanted, bool zero_copies, struct fact *result)
{
	struct size dims[FACT_INTS_MAX], given[FACT_INTS_MAX], mine[DEVICE_RANK_MAX], theirs[FACT_INTS_MAX];
	uint32_t	mine_count, theirs_count, given_count = 0;
	int64_t		mine_product, theirs_product;
	int			missing = -1;

	if (wanted->kind != FACT_INTS || wanted->rank != 1)
		return false;
	for (uint32_t i = 0; i < wanted->count; i++)
	{
		dims[i] = wanted->ints[i];
		if (zero_copies && size_is(dims[i], 0))
		{
			if (i >= fact->rank)
				return false;
			dims[i] = fact->dims[i];
		}
		if (size_is(dims[i], -1) && missing >= 0)
			return false;
		if (size_is(dims[i], -1))
			missing = (int) i;
		else
			given[given_count++] = dims[i];
	}
	if (!split(fact->dims, fact->rank, &mine_product, mine, &mine_count) ||
		!split(given, given_count, &theirs_product, theirs, &theirs_count))
		return false;
	for (uint32_t i = 0; i < theirs_count; i++)
		if (!take(mine, &mine_count, theirs[i]))
			return false;
	if (mine_product % theirs_product != 0)
		return false;
	mine_product /= theirs_product;
	if (missing < 0 && (mine_count > 0 || mine_product != 1))
		return false;
	if (missing >= 0 && (mine_count > 1 || mine_product > INT32_MAX || (mine_count == 1 && !size_small(mine[0]))))
		return false;
	if (missing >= 0)
		dims[missing] = times(mine_count == 1 ? mine[0] : size_of(1), mine_product);
	for (uint32_t i = 0; i < wanted->count; i++)
		if (!size_small(dims[i]))
			return false;
	memcpy(result->dims, dims, wanted->count * sizeof(*dims));
	result->rank = (uint8_t) wanted->count;
	return true;
}
