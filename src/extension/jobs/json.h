/*
 * json.h
 *	  JSON objects written member by member, for what jobs keep and tell.
 *
 * json_begin(&json, NULL, '{'), members, json_end(&json, '}'), json_finish(&json).  Within an array a member
 * has no name (NULL).  Texts are in the database's encoding.
 */
#ifndef INFER_JOBS_JSON_H
#define INFER_JOBS_JSON_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "lib/stringinfo.h"
#include "utils/jsonb.h"

extern void json_begin(StringInfo json, const char *name, char bracket);
extern void json_end(StringInfo json, char bracket);
extern void json_text(StringInfo json, const char *name, const char *value);	/* NULL: null */
extern void json_number(StringInfo json, const char *name, int64 value);
extern void json_double(StringInfo json, const char *name, double value, int places);
extern void json_bool(StringInfo json, const char *name, bool value);
extern void json_time(StringInfo json, const char *name, TimestampTz value);	/* 0: null */
extern void json_raw(StringInfo json, const char *name, const char *value);	/* is JSON already; NULL: null */
extern void json_jsonb(StringInfo json, const char *name, Jsonb *value);	/* NULL: null */

/* The members "versions" (server and extension) and "encoding". */
extern void json_server(StringInfo json);

extern Jsonb *json_finish(StringInfo json);

extern char *json_hex(const uint8 *bytes, int count);

/* The text at a key of the object at a key (object NULL: of the whole); NULL: there is none. */
extern char *json_get(Jsonb *jsonb, const char *object, const char *key);

#endif							/* INFER_JOBS_JSON_H */
