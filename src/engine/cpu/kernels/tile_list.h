/*
 * tile_list.h
 *	  The heights that tiles of a product come in, for a TILE_ROWS of 14, 6 or 4: TILES(P, E)
 *	  makes them by TILE(rows, P panels, E edge), NAMES(P, E) lists them by NAME(…).
 *
 * A pair of panels side by side leaves registers for TILE_PAIR_ROWS rows.
 */
#undef TILE_READS_AHEAD
#define TILE_READS_AHEAD(rows)	(3 * (rows) >= 2 * TILE_ROWS && TILE_ROWS > 4)

#undef TILES
#undef TILES_PAIR
#undef NAMES
#undef NAMES_PAIR

#if TILE_ROWS == 14
#define TILES(P, E) \
	TILE(1, P, E) TILE(2, P, E) TILE(3, P, E) TILE(4, P, E) TILE(5, P, E) TILE(6, P, E) TILE(7, P, E) \
	TILE(8, P, E) TILE(9, P, E) TILE(10, P, E) TILE(11, P, E) TILE(12, P, E) TILE(13, P, E) TILE(14, P, E)
#define TILES_PAIR \
	TILE(2, 2, 0) TILE(3, 2, 0) TILE(4, 2, 0) TILE(5, 2, 0) TILE(6, 2, 0)
#define NAMES(P, E) \
	NULL, NAME(1, P, E), NAME(2, P, E), NAME(3, P, E), NAME(4, P, E), NAME(5, P, E), NAME(6, P, E), \
	NAME(7, P, E), NAME(8, P, E), NAME(9, P, E), NAME(10, P, E), NAME(11, P, E), NAME(12, P, E), \
	NAME(13, P, E), NAME(14, P, E)
#define NAMES_PAIR \
	NULL, NULL, NAME(2, 2, 0), NAME(3, 2, 0), NAME(4, 2, 0), NAME(5, 2, 0), NAME(6, 2, 0)
#elif TILE_ROWS == 6
#define TILES(P, E) \
	TILE(1, P, E) TILE(2, P, E) TILE(3, P, E) TILE(4, P, E) TILE(5, P, E) TILE(6, P, E)
#define TILES_PAIR \
	TILE(2, 2, 0) TILE(3, 2, 0)
#define NAMES(P, E) \
	NULL, NAME(1, P, E), NAME(2, P, E), NAME(3, P, E), NAME(4, P, E), NAME(5, P, E), NAME(6, P, E)
#define NAMES_PAIR \
	NULL, NULL, NAME(2, 2, 0), NAME(3, 2, 0)
#else
#define TILES(P, E) \
	TILE(1, P, E) TILE(2, P, E) TILE(3, P, E) TILE(4, P, E)
#define TILES_PAIR
#define NAMES(P, E) \
	NULL, NAME(1, P, E), NAME(2, P, E), NAME(3, P, E), NAME(4, P, E)
#define NAMES_PAIR \
	NULL
#endif
