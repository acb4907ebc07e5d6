/*
 * errors.c
 *	  The engine's errors as SQL errors; docs/sql.md has the table of SQLSTATEs.
 *
 * Texts come as UTF-8 from another process: they are checked and converted before they
 * become part of an error.
 */
#include "postgres.h"

#include "internal.h"

#include "mb/pg_wchar.h"

void
error_set(struct infer_error_text *err, uint32 error, const char *message,
		  const char *detail, const char *hint)
{
	err->error = error;
	strlcpy(err->message, message ? message : "", sizeof(err->message));
	strlcpy(err->detail, detail ? detail : "", sizeof(err->detail));
	strlcpy(err->hint, hint ? hint : "", sizeof(err->hint));
}

void
error_late(struct infer_error_text *err)
{
	error_set(err, INFER_ERROR_DEADLINE, "the call took longer than infer.timeout", NULL,
			  "Raise infer.timeout, or use smaller batches.");
}

int
infer_client_sqlstate(uint32 error)
{
	switch (error)
	{
		case INFER_ERROR_INPUT:
			return ERRCODE_INVALID_PARAMETER_VALUE;
		case INFER_ERROR_NOT_FINITE:
			return ERRCODE_INFER_NOT_FINITE;
		case INFER_ERROR_UNSUPPORTED:
			return ERRCODE_FEATURE_NOT_SUPPORTED;
		case INFER_ERROR_MODEL:
			return ERRCODE_INFER_INVALID_MODEL;
		case INFER_ERROR_BUSY:
			return ERRCODE_INFER_BUSY;
		case INFER_ERROR_DEADLINE:
			return ERRCODE_INFER_TIMEOUT;
		case INFER_ERROR_CANCELLED:
			return ERRCODE_QUERY_CANCELED;
		case INFER_ERROR_MEMORY:
			return ERRCODE_OUT_OF_MEMORY;
		case INFER_ERROR_DEVICE:
		case INFER_ERROR_DEVICE_LOST:
			return ERRCODE_INFER_DEVICE;
		case INFER_ERROR_PROTOCOL:
			return ERRCODE_PROTOCOL_VIOLATION;
		case INFER_ERROR_VERSION:
		case INFER_CLIENT_LOST:
			return ERRCODE_INFER_ENGINE_UNAVAILABLE;
		case INFER_CLIENT_ROW_KILLED:
			return ERRCODE_INFER_ROW_KILLED_ENGINE;
		case INFER_CLIENT_DISABLED:
			return ERRCODE_INFER_MODEL_DISABLED;
		case INFER_CLIENT_TOO_LARGE:
			return ERRCODE_PROGRAM_LIMIT_EXCEEDED;
		default:
			return ERRCODE_INTERNAL_ERROR;
	}
}

bool
infer_client_error_hides(uint32 error)
{
	switch (error)
	{
		case INFER_ERROR_INPUT:
		case INFER_ERROR_NOT_FINITE:
		case INFER_ERROR_BUSY:
		case INFER_ERROR_DEADLINE:
		case INFER_ERROR_MEMORY:
		case INFER_ERROR_DEVICE:
		case INFER_ERROR_DEVICE_LOST:
		case INFER_CLIENT_LOST:
		case INFER_CLIENT_ROW_KILLED:
			return true;
		default:
			return false;
	}
}

/* In the server's encoding; what is no UTF-8 becomes question marks. */
static char *
to_server(const char *text)
{
	int			length = strlen(text);
	char	   *copy = pnstrdup(text, length);

	if (pg_encoding_verifymbstr(PG_UTF8, copy, length) != length)
	{
		for (char *p = copy; *p != '\0'; p++)
			if (IS_HIGHBIT_SET(*p))
				*p = '?';
	}
	return pg_any_to_server(copy, length, PG_UTF8);
}

void
infer_client_raise(const struct infer_error_text *err)
{
	const char *message = err->message[0] != '\0' ? err->message : infer_error_name(err->error);

	ereport(ERROR,
			(errcode(infer_client_sqlstate(err->error)),
			 errmsg("%s", to_server(message)),
			 err->detail[0] != '\0' ? errdetail("%s", to_server(err->detail)) : 0,
			 err->hint[0] != '\0' ? errhint("%s", to_server(err->hint)) : 0));
	pg_unreachable();
}
