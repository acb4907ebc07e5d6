/*
 * kernels_math.h
 *	  Elementary functions of a vector.  Included by kernels_impl.h for each type.
 */

/* A function of the C library, lane by lane: the same for every lane. */
INLINE V(t)
N(lanes)(V(t) x, T (*function) (T))
{
	T			lane[V(WIDTH)];

	V(store)(lane, x);
	for (int i = 0; i < V(WIDTH); i++)
		lane[i] = function(lane[i]);
	return V(load)(lane);
}

INLINE V(t)
N(lanes2)(V(t) a, V(t) b, T (*function) (T, T))
{
	T			lane_a[V(WIDTH)];
	T			lane_b[V(WIDTH)];

	V(store)(lane_a, a);
	V(store)(lane_b, b);
	for (int i = 0; i < V(WIDTH); i++)
		lane_a[i] = function(lane_a[i], lane_b[i]);
	return V(load)(lane_a);
}

/* The one NaN. */
INLINE V(t)
N(canonical)(V(t) x)
{
	return V(select)(V(unord)(x, x), V(set1)((T) NAN), x);
}

/* NaN if either is NaN. */
INLINE V(t)
N(max)(V(t) a, V(t) b)
{
	return V(select)(V(either)(V(lt)(b, a), V(unord)(a, a)), a, b);
}

INLINE V(t)
N(min)(V(t) a, V(t) b)
{
	return V(select)(V(either)(V(lt)(a, b), V(unord)(a, a)), a, b);
}

INLINE V(t)
N(exp)(V(t) x)
{
	return N(lanes)(x, LIBM(exp));
}

INLINE V(t)
N(expm1)(V(t) x)
{
	return N(lanes)(x, LIBM(expm1));
}

INLINE V(t)
N(log)(V(t) x)
{
	return N(lanes)(x, LIBM(log));
}

INLINE V(t)
N(log1p)(V(t) x)
{
	return N(lanes)(x, LIBM(log1p));
}

INLINE V(t)
N(tanh)(V(t) x)
{
	return N(lanes)(x, LIBM(tanh));
}

INLINE V(t)
N(erf)(V(t) x)
{
	return N(lanes)(x, LIBM(erf));
}

INLINE V(t)
N(pow)(V(t) x, V(t) y)
{
	return N(lanes2)(x, y, LIBM(pow));
}

/* 1 / (1 + e^−x), by the exponential of −|x| alone, which cannot overflow. */
INLINE V(t)
N(sigmoid)(V(t) x)
{
	V(t)		e = N(exp)(V(neg)(V(abs)(x)));
	V(t)		one = V(set1)(1);
	V(t)		top = V(select)(V(lt)(x, V(set1)(0)), e, one);

	return V(div)(top, V(add)(one, e));
}

/* log(1 + e^x) */
INLINE V(t)
N(softplus)(V(t) x)
{
	V(t)		tail = N(log1p)(N(exp)(V(neg)(V(abs)(x))));

	return V(add)(N(max)(x, V(set1)(0)), tail);
}

static T
N(probit)(T p)
{
	return (T) probit(p);
}

static T
N(floored_mod)(T a, T b)
{
	T			r = LIBM(fmod)(a, b);

	return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
