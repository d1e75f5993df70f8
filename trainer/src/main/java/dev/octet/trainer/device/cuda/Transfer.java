package dev.octet.trainer.device.cuda;

import java.util.function.IntSupplier;

/**
 * A copy or a fill.
 *
 * @param name of the driver's function
 * @param bytes device memory traffic: bytes read plus bytes written
 */
record Transfer(GpuContext context, String name, long bytes, IntSupplier call) implements Work {
    @Override
    public void run() {
        context.enter();
        context.check(call.getAsInt(), name);
    }
}
