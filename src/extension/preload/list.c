/*
 * list.c
 *	  The list infer.preload, read entry by entry.
 */
#include "postgres.h"

#include "utils/guc.h"

#include "internal.h"

static bool
is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/*
 * A name at *p, as an identifier in SQL: in double quotes as it is, else in lower case up to a
 * character that cannot stand there.  Returns what is wrong with it, or NULL.
 */
static const char *
read_name(const char **p, const char *stops, char name[NAMEDATALEN])
{
	const char *c = *p;
	bool		quoted = *c == '"';
	int			length = 0;

	if (quoted)
		c++;
	for (;; c++)
	{
		if (quoted && *c == '\0')
			return "a name in double quotes does not end";
		if (quoted && *c == '"' && *++c != '"')
			break;
		if (!quoted && (*c == '\0' || is_space(*c) || strchr(stops, *c) != NULL))
			break;
		if (length == NAMEDATALEN - 1)
			return "a name is too long";
		name[length++] = quoted ? *c : pg_ascii_tolower((unsigned char) *c);
	}
	name[length] = '\0';
	*p = c;
	return length == 0 ? "a name is missing" : NULL;
}

/* The version behind a model's name, appended to it. */
static const char *
read_version(const char **p, char model[MODEL_MAX])
{
	const char *digits = ++*p;
	int64		version = 0;

	while (**p >= '0' && **p <= '9' && version <= PG_INT32_MAX)
		version = version * 10 + *(*p)++ - '0';
	if (*digits == '0' || version < 1 || version > PG_INT32_MAX)
		return "a version is no number above 0";
	snprintf(model + strlen(model), MODEL_MAX - strlen(model), "@%d", (int) version);
	return NULL;
}

enum EntryEnd
preload_next_entry(const char **p, bool first, Entry *entry, const char **problem)
{
	while (is_space(**p))
		(*p)++;
	if (**p == '\0')
		return ENTRY_NONE;
	if (!first)
	{
		*problem = "a comma is missing";
		if (**p != ',')
			return ENTRY_BAD;
		(*p)++;
		while (is_space(**p))
			(*p)++;
	}
	*problem = read_name(p, ".,\"", entry->database);
	if (*problem == NULL && **p != '.')
		*problem = "a dot between database and model is missing";
	if (*problem != NULL)
		return ENTRY_BAD;
	(*p)++;
	*problem = read_name(p, ".,@\"", entry->model);
	if (*problem == NULL && **p == '@')
		*problem = read_version(p, entry->model);
	if (*problem == NULL && **p != '\0' && **p != ',' && !is_space(**p))
		*problem = "something follows the model";
	return *problem == NULL ? ENTRY_FOUND : ENTRY_BAD;
}

bool
infer_preload_check(char **newval, void **extra, GucSource source)
{
	const char *p = *newval;
	const char *problem;
	Entry		entry;

	for (int number = 1;; number++)
	{
		switch (preload_next_entry(&p, number == 1, &entry, &problem))
		{
			case ENTRY_FOUND:
				break;
			case ENTRY_NONE:
				return true;
			case ENTRY_BAD:
				GUC_check_errdetail("In entry %d, %s.", number, problem);
				GUC_check_errhint("Write database.model or database.model@version, with commas between them, and double quotes around names with other characters than lower-case letters, digits, _ and -.");
				return false;
		}
	}
}
