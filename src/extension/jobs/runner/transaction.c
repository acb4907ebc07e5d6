/*
 * transaction.c
 *	  A runner's transactions: as the job's owner, under the settings that jobs need and those of the session that
 *	  submitted it, whatever the role's own say and triggers have left behind.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"

#include "../../compat.h"
#include "runner.h"

typedef struct Setting
{
	const char *name;
	const char *value;
} Setting;

static const Setting settings[] = {
	{"bytea_output", "hex"},
	{"datestyle", "ISO"},
	{"default_transaction_deferrable", "off"},
	{"default_transaction_isolation", "read committed"},
	{"default_transaction_read_only", "off"},
	{"extra_float_digits", "1"},
	{"infer.on_error", "error"},
	{"infer.request_class", "job"},
	{"infer.timeout", "0"},
	{"intervalstyle", "postgres"},
	{"jit", "off"},
	{"lock_timeout", "1s"},
	{"row_security", "on"},
	{"statement_timeout", "0"},
#ifdef INFER_HAS_TRANSACTION_TIMEOUT
	{"transaction_timeout", "0"},
#endif
};

static void
set_option(const char *name, const char *value)
{
	SetConfigOption(name, value, PGC_USERSET, PGC_S_SESSION);
}

static void
set_options(void)
{
	for (int i = 0; i < lengthof(settings); i++)
		set_option(settings[i].name, settings[i].value);
}

/* In a transaction. */
static void
set_identity(const Runner *runner)
{
	if (GetSessionUserId() != runner->owner)
		SetSessionAuthorization(runner->owner, superuser_arg(runner->owner));
	if (GetUserId() != runner->owner)
		set_option("role", "none");
	if (runner->search_path != NULL && strcmp(runner->search_path, namespace_search_path) != 0)
		set_option("search_path", runner->search_path);
	if (runner->time_zone != NULL && strcmp(runner->time_zone, GetConfigOption("timezone", false, false)) != 0)
		set_option("timezone", runner->time_zone);
	if (runner->date_style != NULL)
		set_option("datestyle", runner->date_style);
}

void
runner_begin_transaction(Runner *runner)
{
	MemoryContext context = CurrentMemoryContext;

	set_options();
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	set_identity(runner);
	PushActiveSnapshot(GetTransactionSnapshot());
	MemoryContextSwitchTo(context);
}

void
runner_commit(Runner *runner)
{
	MemoryContext context = CurrentMemoryContext;

	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(context);
	(void) pgstat_report_stat(false);
}
