/*
 * failed.c
 *	  Rows that a version fails on: "model@version failed" in the version column, or its number below zero, so that
 *	  the next job does not try them again, until the row changes or another version is activated.
 *
 * Whoever has changed the row since it was read has marked the column, so such a row is left as it is; one that
 * somebody has locked is left, too.  What the table's constraints or triggers refuse is not written.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "../rows/rows.h"
#include "fresh.h"

static SPIPlanPtr
prepare(const JobPlan *plan)
{
	Oid			types[] = {TEXTOID, OIDOID, TIDOID, XIDOID};
	char	   *query = psprintf("UPDATE %s SET %s = $1::%s WHERE tableoid OPERATOR(pg_catalog.=) $2 AND ctid OPERATOR(pg_catalog.=) "
								 "(SELECT s.ctid FROM %s AS s WHERE s.tableoid OPERATOR(pg_catalog.=) $2 "
								 "AND s.ctid OPERATOR(pg_catalog.=) $3 AND s.xmin OPERATOR(pg_catalog.=) $4 FOR NO KEY UPDATE SKIP LOCKED)",
								 plan->target_sql, plan->version_column->sql, plan->version_column->type_sql, plan->target_sql);
	SPIPlanPtr	prepared = SPI_prepare(query, lengthof(types), types);

	if (prepared == NULL)
		elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
	return prepared;
}

typedef struct Mark
{
	const JobPlan *plan;
	SPIPlanPtr	prepared;
	const JobRow *row;
	const char *text;
} Mark;

static void
mark_now(void *arg)
{
	const Mark *mark = arg;
	const JobRow *row = mark->row;
	Datum		values[] = {
		CStringGetTextDatum(mark->text), ObjectIdGetDatum(row->tableoid), PointerGetDatum(&row->tid),
		TransactionIdGetDatum(row->xmin)
	};

	if (job_row_stays(mark->plan, row))
		SPI_execute_plan(mark->prepared, values, NULL, false, 0);
}

static void
mark_row(const JobPlan *plan, SPIPlanPtr prepared, const JobRow *row, const char *text)
{
	Mark		mark = {.plan = plan,.prepared = prepared,.row = row,.text = text};
	ErrorData  *error;

	if (!OidIsValid(row->tableoid))
		return;						/* it was not found when it was looked for by itself */
	error = job_attempt(mark_now, &mark);
	if (error == NULL)
		return;
	if (error->sqlerrcode == ERRCODE_QUERY_CANCELED || error->sqlerrcode == ERRCODE_ADMIN_SHUTDOWN)
		ReThrowError(error);
	FreeErrorData(error);
}

static char *
text_of(const JobPlan *plan)
{
	switch (getBaseType(plan->version_column->type))
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
			return psprintf("-%d", plan->model->version);
		default:
			return fresh_version_failed(plan->model->name, plan->model->version);
	}
}

/* In the transaction that writes the chunk, when its rows have their outcomes. */
void
job_fresh_failed(const JobRun *run, const JobChunk *chunk)
{
	const JobPlan *plan = run->plan;
	SPIPlanPtr	prepared = NULL;

	if (plan->request->fresh == 0 || plan->version_column == NULL)
		return;
	for (int i = 0; i < chunk->rows_count; i++)
	{
		if (chunk->rows[i].outcome != JOB_ROW_FAILED)
			continue;
		if (prepared == NULL)
		{
			SPI_connect();
			prepared = prepare(plan);
		}
		mark_row(plan, prepared, &chunk->rows[i], text_of(plan));
	}
	if (prepared != NULL)
		SPI_finish();
}
