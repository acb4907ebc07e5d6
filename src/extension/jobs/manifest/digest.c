/*
 * digest.c
 *	  Digests of what a job read and wrote.
 *
 * A digest is the sum, modulo 2^128, of a hash of 128 bits for each row that was written: of its key and
 * its inputs, or of its key and the verb's result.  A sum does not depend on the rows' order, so runs with
 * other chunks, other shards, or after interruptions have the same, and a job's is the sum of its shards'.
 *
 * Values are hashed as their contents, whatever way they are stored; those whose bytes mean something
 * else in another database (enums) as their types send them.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "../job.h"

typedef struct RowHash
{
	uint64		words[2];
} RowHash;

/* ---- hashing ---- */

/* Odd, and different, so that the two words of a row have nothing in common. */
static const uint64 multipliers[2] = {UINT64CONST(0x9e3779b97f4a7c15), UINT64CONST(0xd6e8feb86659fd93)};

static void
add_bytes(RowHash *hash, const void *bytes, Size length)
{
	for (int i = 0; i < 2; i++)
		hash->words[i] = hash_bytes_extended(bytes, length, hash->words[i]);
}

/*
 * The product of 128 bits, folded: each bit of the word reaches half of the result's.  As in wyhash
 * (https://github.com/wangyi-fudan/wyhash).
 */
static inline uint64
mix(uint64 word, uint64 multiplier)
{
	unsigned __int128 product = (unsigned __int128) word * multiplier;

	return (uint64) product ^ (uint64) (product >> 64);
}

/* Types of one length whose Datum is the value. */
static void
add_word(RowHash *hash, uint64 value)
{
	for (int i = 0; i < 2; i++)
		hash->words[i] = mix(hash->words[i] ^ value, multipliers[i]) + multipliers[1 - i];
}

static void
add_length(RowHash *hash, Size length)
{
	add_word(hash, length);
}

static bool
is_word(Oid type)
{
	switch (type)
	{
		case BOOLOID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case FLOAT4OID:
		case FLOAT8OID:
		case DATEOID:
		case TIMEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			return true;
	}
	return false;
}

static bool
is_bytes(Oid type)
{
	return type == TEXTOID || type == VARCHAROID || type == BPCHAROID || type == BYTEAOID;
}

/* An array of numbers, without what only says how it is stored. */
static bool
add_numbers(RowHash *hash, Datum value)
{
	ArrayType  *array = DatumGetArrayTypeP(value);

	if (ARR_HASNULL(array))
		return false;
	add_length(hash, ARR_NDIM(array));
	for (int i = 0; i < ARR_NDIM(array); i++)
	{
		add_word(hash, ARR_DIMS(array)[i]);
		add_word(hash, ARR_LBOUND(array)[i]);
	}
	add_bytes(hash, ARR_DATA_PTR(array), ARR_SIZE(array) - ARR_DATA_OFFSET(array));
	return true;
}

/* Invalid: it has none. */
static Oid
send_function(Oid type)
{
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	Oid			function;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for type %u", type);
	function = ((Form_pg_type) GETSTRUCT(tuple))->typsend;
	ReleaseSysCache(tuple);
	return function;
}

/* As the type sends it, or else writes it. */
static void
add_sent(RowHash *hash, Oid type, Datum value)
{
	Oid			function = send_function(type);
	bool		is_varlena;

	if (OidIsValid(function))
	{
		bytea	   *bytes = OidSendFunctionCall(function, value);

		add_length(hash, VARSIZE(bytes) - VARHDRSZ);
		add_bytes(hash, VARDATA(bytes), VARSIZE(bytes) - VARHDRSZ);
	}
	else
	{
		char	   *text;

		getTypeOutputInfo(type, &function, &is_varlena);
		text = OidOutputFunctionCall(function, value);
		add_length(hash, strlen(text));
		add_bytes(hash, text, strlen(text));
	}
}

static void
add_text(RowHash *hash, Datum value)
{
	struct varlena *bytes = PG_DETOAST_DATUM_PACKED(value);

	add_length(hash, VARSIZE_ANY_EXHDR(bytes));
	add_bytes(hash, VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
}

static void
add_value(RowHash *hash, Oid type, Datum value, bool null)
{
	add_word(hash, null);
	if (null)
		return;
	if (!is_word(type) && !is_bytes(type))
		type = getBaseType(type);
	if (is_word(type))
		add_word(hash, value);
	else if (is_bytes(type))
		add_text(hash, value);
	else if (!((type == FLOAT4ARRAYOID || type == FLOAT8ARRAYOID) && add_numbers(hash, value)))
		add_sent(hash, type, value);
}

/* ---- sums ---- */

static uint64
get_word(const uint8 *bytes)
{
	uint64		word = 0;

	for (int i = 7; i >= 0; i--)
		word = word << 8 | bytes[i];
	return word;
}

static void
put_word(uint8 *bytes, uint64 word)
{
	for (int i = 0; i < 8; i++)
		bytes[i] = word >> 8 * i;
}

static void
add_hash(uint8 *digest, const RowHash *hash)
{
	uint64		low = get_word(digest);
	uint64		sum = low + hash->words[0];

	put_word(digest, sum);
	put_word(digest + 8, get_word(digest + 8) + hash->words[1] + (sum < low));
}

void
job_digest_sum(uint8 *digest, const uint8 *other)
{
	RowHash		hash = {{get_word(other), get_word(other + 8)}};

	add_hash(digest, &hash);
}

void
job_digest_add(const JobPlan *plan, const JobRow *row, JobShard *shard)
{
	static MemoryContext scratch = NULL;
	MemoryContext old;
	RowHash		key = {{UINT64CONST(0x9e3779b97f4a7c15), UINT64CONST(0xc2b2ae3d27d4eb4f)}};
	RowHash		input;
	RowHash		output;

	if (scratch == NULL)
		scratch = AllocSetContextCreate(TopMemoryContext, "infer job digest", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(scratch);
	for (int i = 0; i < plan->keys_count; i++)
		add_value(&key, plan->keys[i].type, row->keys[i], false);
	input = output = key;
	add_word(&input, 'i');
	for (int i = 0; i < plan->inputs_count; i++)
		add_value(&input, plan->inputs[i].type, row->inputs[i], row->inputs_null[i]);
	add_word(&output, 'o');
	add_value(&output, plan->result_type, row->result, row->result_null);
	add_hash(shard->input_digest, &input);
	add_hash(shard->output_digest, &output);
	MemoryContextSwitchTo(old);
	MemoryContextReset(scratch);
}
