/*
 * cluster.c
 *	  Grapheme clusters: Unicode Standard Annex #29, section 3.1.1, rules GB3 to GB13.
 */
#include "unicode.h"

#define ZWJ		0x200D

enum hangul
{
	HANGUL_NONE,
	HANGUL_L,
	HANGUL_V,
	HANGUL_T,
	HANGUL_LV,
	HANGUL_LVT
};

struct cluster						/* what matters of the characters so far */
{
	uint32_t	point;				/* the last */
	uint8_t		kind;				/* CLUSTER_ of it */
	bool		pictograph;			/* one, and nothing but Extend since */
	bool		pictograph_joined;	/* and ZWJ last */
	bool		consonant;			/* one, and nothing but what may be between since */
	bool		linked;				/* with a linker among it */
	bool		indicator;			/* the last is a regional one, without another before it */
};

static enum hangul
hangul_of(uint32_t point)
{
	if (point >= 0xAC00 && point <= 0xD7A3)
		return (point - 0xAC00) % 28 == 0 ? HANGUL_LV : HANGUL_LVT;
	if ((point >= 0x1100 && point <= 0x115F) || (point >= 0xA960 && point <= 0xA97C))
		return HANGUL_L;
	if ((point >= 0x1160 && point <= 0x11A7) || (point >= 0xD7B0 && point <= 0xD7C6))
		return HANGUL_V;
	if ((point >= 0x11A8 && point <= 0x11FF) || (point >= 0xD7CB && point <= 0xD7FB))
		return HANGUL_T;
	return HANGUL_NONE;
}

static bool
hangul_joins(uint32_t first, uint32_t second)
{
	enum hangul a = hangul_of(first), b = a == HANGUL_NONE ? HANGUL_NONE : hangul_of(second);

	return (a == HANGUL_L && (b == HANGUL_L || b == HANGUL_V || b == HANGUL_LV || b == HANGUL_LVT)) ||
		((a == HANGUL_LV || a == HANGUL_V) && (b == HANGUL_V || b == HANGUL_T)) ||
		((a == HANGUL_LVT || a == HANGUL_T) && b == HANGUL_T);
}

static bool
is_indicator(uint32_t point)
{
	return point >= 0x1F1E6 && point <= 0x1F1FF;
}

static bool
is_extend(uint8_t kind)
{
	return kind == CLUSTER_EXTEND || kind == CLUSTER_JOINING || kind == CLUSTER_LINKER;
}

/* Whether a character belongs to the cluster before it. */
static bool
joins(const struct cluster *cluster, uint32_t point, uint8_t kind)
{
	if (cluster->point == '\r' && point == '\n')
		return true;
	if (cluster->kind == CLUSTER_CONTROL || kind == CLUSTER_CONTROL)
		return false;
	if (is_extend(kind) || kind == CLUSTER_SPACING || cluster->kind == CLUSTER_PREPEND)
		return true;
	if (kind == CLUSTER_CONSONANT && cluster->linked)
		return true;
	if (kind == CLUSTER_PICTOGRAPH && cluster->pictograph_joined)
		return true;
	if (cluster->indicator && is_indicator(point))
		return true;
	return hangul_joins(cluster->point, point);
}

static void
advance(struct cluster *cluster, uint32_t point, uint8_t kind)
{
	cluster->pictograph_joined = cluster->pictograph && point == ZWJ;
	cluster->pictograph = kind == CLUSTER_PICTOGRAPH || (cluster->pictograph && is_extend(kind) && point != ZWJ);
	cluster->linked = cluster->consonant && (kind == CLUSTER_LINKER || (cluster->linked && kind == CLUSTER_JOINING));
	cluster->consonant = kind == CLUSTER_CONSONANT ||
		(cluster->consonant && (kind == CLUSTER_LINKER || kind == CLUSTER_JOINING));
	cluster->indicator = is_indicator(point) && !cluster->indicator;
	cluster->point = point;
	cluster->kind = kind;
}

size_t
unicode_cluster_end(const uint8_t *text, size_t at, size_t size)
{
	struct cluster cluster = {0};
	uint32_t	length, point = utf8_decode(text + at, &length);

	advance(&cluster, point, unicode_cluster(point));
	for (at += length; at < size; at += length)
	{
		uint8_t		kind;

		if (text[at] < 0x80 && cluster.kind != CLUSTER_PREPEND && text[at] != '\n')
			break;
		point = utf8_decode(text + at, &length);
		kind = unicode_cluster(point);
		if (!joins(&cluster, point, kind))
			break;
		advance(&cluster, point, kind);
	}
	return at;
}
