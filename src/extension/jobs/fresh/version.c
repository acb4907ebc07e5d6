/*
 * version.c
 *	  What a version column says of the version that made a row.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/hashfn.h"

#include "fresh.h"

char *
fresh_version_text(const char *model, int32 number)
{
	return psprintf("%s@%d", model, number);
}

char *
fresh_version_failed(const char *model, int32 number)
{
	return psprintf("%s@%d failed", model, number);
}

uint64
fresh_text_hash(const char *text, Size length)
{
	return DatumGetUInt64(hash_any_extended((const unsigned char *) text, (int) length, 0));
}

void
fresh_version_make(const char *model, int32 number, FreshVersion *version)
{
	char	   *text = fresh_version_text(model, number);
	char	   *failed = fresh_version_failed(model, number);

	version->number = number;
	version->text_hash = fresh_text_hash(text, strlen(text));
	version->failed_hash = fresh_text_hash(failed, strlen(failed));
}

bool
fresh_version_says(const FreshVersion *version, Datum value, Oid type)
{
	uint64		hash;
	text	   *said;

	if (version->number == 0)
		return false;
	switch (type)
	{
		case INT2OID:
			return abs((int32) DatumGetInt16(value)) == version->number;
		case INT4OID:
			return DatumGetInt32(value) == version->number || DatumGetInt32(value) == -version->number;
		case INT8OID:
			return DatumGetInt64(value) == version->number || DatumGetInt64(value) == -(int64) version->number;
		case TEXTOID:
		case VARCHAROID:
			said = DatumGetTextPP(value);
			hash = fresh_text_hash(VARDATA_ANY(said), VARSIZE_ANY_EXHDR(said));
			return hash == version->text_hash || hash == version->failed_hash;
		default:
			return false;
	}
}
