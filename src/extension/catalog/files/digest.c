/*
 * digest.c
 *	  SHA-256 of files and models, by PostgreSQL's own implementation.
 */
#include "postgres.h"

#include "common/cryptohash.h"

#include "../../compat.h"
#include "../internal.h"

/* InferHash is a pg_cryptohash_ctx whose errors are raised; its end of transaction frees it. */

pg_noreturn static void
hash_failed(pg_cryptohash_ctx *context)
{
	ereport(ERROR,
			(errcode(ERRCODE_INTERNAL_ERROR),
			 errmsg("could not compute a SHA-256: %s", pg_cryptohash_error(context))));
}

InferHash *
infer_hash_begin(void)
{
	pg_cryptohash_ctx *context = pg_cryptohash_create(PG_SHA256);

	if (context == NULL || pg_cryptohash_init(context) < 0)
		hash_failed(context);
	return (InferHash *) context;
}

void
infer_hash_update(InferHash *hash, const void *data, Size length)
{
	if (pg_cryptohash_update((pg_cryptohash_ctx *) hash, data, length) < 0)
		hash_failed((pg_cryptohash_ctx *) hash);
}

void
infer_hash_final(InferHash *hash, uint8 *digest)
{
	if (pg_cryptohash_final((pg_cryptohash_ctx *) hash, digest, INFER_KEY_BYTES) < 0)
		hash_failed((pg_cryptohash_ctx *) hash);
	pg_cryptohash_free((pg_cryptohash_ctx *) hash);
}

void
infer_digest_add(InferHash *hash, const char *name, uint64 size, const uint8 *sha256)
{
	uint8		size_bytes[8];		/* little-endian */

	for (int i = 0; i < 8; i++)
		size_bytes[i] = (uint8) (size >> (8 * i));
	infer_hash_update(hash, name, strlen(name) + 1);
	infer_hash_update(hash, size_bytes, sizeof(size_bytes));
	infer_hash_update(hash, sha256, INFER_KEY_BYTES);
}
