/*
 * errors.c
 *	  The engine's errors as SQL errors; docs/sql.md has the table of SQLSTATEs.
 *
 * Texts come as UTF-8 from another process: they are checked and converted before they
 * become part of an error.
 */
#include "postgres.h"

#include "internal.h"

#include "access/xact.h"
#include "catalog/namespace.h"
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

/* The same for what computes nothing, so takes long only if the engine has no ear for it. */
void
error_no_answer(struct infer_error_text *err)
{
	error_set(err, INFER_ERROR_DEADLINE, "the inference engine did not answer within infer.timeout", NULL,
			  "Try again: an engine that hangs is replaced after infer.engine_timeout, and at once by infer.restart_engine().");
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

static bool
is_ascii(const char *text)
{
	while (*text != '\0' && !IS_HIGHBIT_SET(*text))
		text++;
	return *text == '\0';
}

/*
 * Whether the database's encoding can hold a text of valid UTF-8; converted gets it.  Outside of a transaction
 * (a runner of jobs waits in none) the catalogue cannot be asked how.
 */
static bool
convert(char *text, int length, char **converted)
{
	int			encoding = GetDatabaseEncoding();
	int			room = length * MAX_CONVERSION_GROWTH + 1;
	Oid			function;

	*converted = text;
	if (encoding == PG_UTF8 || is_ascii(text))
		return true;
	if (!IsTransactionState())
		return false;
	function = encoding == PG_SQL_ASCII ? InvalidOid : FindDefaultConversionProc(PG_UTF8, encoding);
	if (!OidIsValid(function))
		return false;
	*converted = palloc(room);
	return pg_do_encoding_conversion_buf(function, PG_UTF8, encoding, (unsigned char *) text, length,
										 (unsigned char *) *converted, room, true) == length;
}

/*
 * In the server's encoding.  What is no UTF-8, or cannot be said in that encoding, becomes
 * question marks: an error's text must never fail itself.
 */
char *
infer_client_text(const char *text)
{
	int			length = strlen(text);
	char	   *copy = pnstrdup(text, length);
	char	   *converted;

	if (pg_encoding_verifymbstr(PG_UTF8, copy, length) == length && convert(copy, length, &converted))
		return converted;
	for (char *p = copy; *p != '\0'; p++)
		if (IS_HIGHBIT_SET(*p))
			*p = '?';
	return copy;
}

void
infer_client_raise(const struct infer_error_text *err)
{
	const char *message = infer_client_text(err->message[0] != '\0' ? err->message : infer_error_name(err->error));
	const char *detail = infer_client_text(err->detail);
	const char *hint = infer_client_text(err->hint);

	ereport(ERROR,
			(errcode(infer_client_sqlstate(err->error)),
			 errmsg("%s", message),
			 detail[0] != '\0' ? errdetail("%s", detail) : 0,
			 hint[0] != '\0' ? errhint("%s", hint) : 0));
	pg_unreachable();
}
