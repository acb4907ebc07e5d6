/*
 * class.c
 *	  Regular expressions that are one class of characters and how many of them: \s+ and {2,}
 *	  and [0-9]{3} and the like.
 *
 * Each match takes as many characters as it may, from the first place on that has enough of
 * them.
 */
#include "../text_internal.h"

#include <string.h>

/* A number of at most four digits. */
static bool
read_number(const char **at, uint32_t *number)
{
	const char *start = *at;

	*number = 0;
	for (; **at >= '0' && **at <= '9' && *at - start < 4; (*at)++)
		*number = *number * 10 + (uint32_t) (**at - '0');
	return *at > start;
}

/* Nothing, +, {n}, {n,} or {n,m}, and then the end. */
static bool
read_count(const char *at, struct character_class *class)
{
	class->least = class->most = 1;
	if (strcmp(at, "+") == 0)
		return class->most = UINT32_MAX, true;
	if (*at == '\0')
		return true;
	if (*at++ != '{' || !read_number(&at, &class->least))
		return false;
	class->most = class->least;
	if (*at == ',' && *++at == '}')
		class->most = UINT32_MAX;
	else if (at[-1] == ',' && !read_number(&at, &class->most))
		return false;
	return strcmp(at, "}") == 0 && class->least > 0 && class->most >= class->least;
}

/* \s, \p{L}, \p{N}: its flags; 0: it is none of these. */
static uint16_t
read_property(const char **at)
{
	static const struct
	{
		const char *name;
		uint16_t	flags;
	}			known[] = {{"\\s", UNICODE_SPACE}, {"\\p{L}", UNICODE_LETTER}, {"\\p{N}", UNICODE_NUMBER}};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (strncmp(*at, known[i].name, strlen(known[i].name)) == 0)
		{
			*at += strlen(known[i].name);
			return known[i].flags;
		}
	return 0;
}

/* \p{Zs}, of which there are few; false: it is something else, or there is no room. */
static bool
read_separators(const char **at, struct character_class *class)
{
	static const uint32_t separators[][2] = {
		{0x20, 0x20}, {0xA0, 0xA0}, {0x1680, 0x1680}, {0x2000, 0x200A}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}
	};
	uint32_t	count = sizeof(separators) / sizeof(*separators);

	if (strncmp(*at, "\\p{Zs}", 6) != 0 || class->count + count > CLASS_RANGES)
		return false;
	memcpy(class->ranges[class->count], separators, sizeof(separators));
	class->count += count;
	*at += 6;
	return true;
}

/* Four hexadecimal digits; false: they are not, or no character. */
static bool
read_hexadecimal(const char **at, uint32_t *point)
{
	*point = 0;
	for (int i = 0; i < 4; i++, (*at)++)
	{
		static const char digits[] = "0123456789abcdef";
		const char *digit = **at == '\0' ? NULL : strchr(digits, **at >= 'A' && **at <= 'F' ? **at + 'a' - 'A' : **at);

		if (digit == NULL)
			return false;
		*point = *point * 16 + (uint32_t) (digit - digits);
	}
	return *point < 0xD800 || *point > 0xDFFF;
}

/* A character that stands for itself, or is escaped; false: it means something. */
static bool
read_character(const char **at, uint32_t *point)
{
	uint32_t	length;

	if (**at == '\0' || strchr("^$.|?*+()[]{}&-", **at) != NULL)
		return false;
	if (**at == '\\')
	{
		char		escaped = (*at)[1];

		if (escaped == 'u')
		{
			*at += 2;
			return read_hexadecimal(at, point);
		}
		if (escaped == '\0' || strchr("nrt^$.|?*+()[]{}&-/\\'\"", escaped) == NULL)
			return false;
		*point = escaped == 'n' ? '\n' : escaped == 'r' ? '\r' : escaped == 't' ? '\t' : (uint8_t) escaped;
		*at += 2;
		return true;
	}
	*point = utf8_decode((const uint8_t *) *at, &length);
	*at += length;
	return true;
}

/* What is between brackets, and the second of them. */
static bool
read_set(const char **at, struct character_class *class)
{
	if (**at == '^')
	{
		class->negated = true;
		(*at)++;
	}
	while (**at != ']')
	{
		uint16_t	flags = read_property(at);
		uint32_t	first, last;

		class->flags |= flags;
		if (flags != 0 || read_separators(at, class))
			continue;
		if (class->count == CLASS_RANGES || !read_character(at, &first))
			return false;
		last = first;
		if (**at == '-')
		{
			(*at)++;
			if (!read_character(at, &last) || last < first)
				return false;
		}
		class->ranges[class->count][0] = first;
		class->ranges[class->count++][1] = last;
	}
	(*at)++;
	return class->flags != 0 || class->count > 0;
}

bool
class_read(const char *regex, struct character_class *class)
{
	const char *at = regex;
	uint32_t	point;

	*class = (struct character_class) {.flags = read_property(&at)};
	if (class->flags == 0 && *at == '[')
	{
		at++;
		if (!read_set(&at, class))
			return false;
	}
	else if (class->flags == 0 && !read_separators(&at, class))
	{
		if (!read_character(&at, &point))
			return false;
		class->ranges[0][0] = class->ranges[0][1] = point;
		class->count = 1;
	}
	return read_count(at, class);
}

static bool
is_of(const struct character_class *class, uint32_t point)
{
	bool		found = (unicode_flags(point) & class->flags) != 0;

	for (uint32_t i = 0; !found && i < class->count; i++)
		found = point >= class->ranges[i][0] && point <= class->ranges[i][1];
	return found != class->negated;
}

bool
class_next(const struct character_class *class, const uint8_t *bytes, uint32_t at, uint32_t end, uint32_t *start,
		   uint32_t *stop)
{
	while (at < end)
	{
		uint32_t	count = 0, length = 0;

		*start = at;
		while (count < class->most && at < end && is_of(class, utf8_decode(bytes + at, &length)))
		{
			at += length;
			count++;
		}
		*stop = at;
		if (count >= class->least)
			return true;
		at += at < end ? length : 0;	/* which is of no match, and no match is in what is before */
	}
	return false;
}
