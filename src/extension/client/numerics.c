/*
 * numerics.c
 *	  The results of a statement come from devices that compute the same bits, or it ends with an error.
 *
 * Nouns
 *	scope			whose results must agree: a statement's, or what a job's runner says (a chunk's)
 *
 * An engine that dies in the middle of a statement is replaced, and what was under way is sent again; but where the new
 * one computes on another device (infer.device = auto, and the GPU is gone), rows computed before and after would be
 * of two kinds.  What makes the bits of results is named by numerics_id of WELCOME.
 */
#include "postgres.h"

#include "internal.h"

#include "access/xact.h"

static InferScope statement;
static TimestampTz statement_start;
static InferScope *scope = NULL;	/* instead of the statement's */

InferScope *
infer_client_scope(InferScope *within)
{
	InferScope *before = scope;

	scope = within;
	return before;
}

static InferScope *
current_scope(void)
{
	if (scope != NULL)
		return scope;
	if (statement_start != GetCurrentStatementStartTimestamp())
	{
		statement_start = GetCurrentStatementStartTimestamp();
		statement.numerics_id[0] = '\0';
	}
	return &statement;
}

bool
numerics_agree(InferCall *call)
{
	InferScope *within = current_scope();

	if (within->numerics_id[0] == '\0')
		strlcpy(within->numerics_id, connection.numerics_id, sizeof(within->numerics_id));
	if (strcmp(within->numerics_id, connection.numerics_id) == 0)
		return true;
	error_set(&call->error, INFER_CLIENT_LOST, "the inference engine was replaced by one that computes other bits",
			  psprintf("Rows before were computed by %s, and the engine is %s now.", within->numerics_id, connection.numerics_id),
			  "Run the statement again.");
	return false;
}
