package dev.octet.trainer.device.cuda;

import dev.octet.trainer.kernel.CudaStream.Grid;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import jcuda.Pointer;
import jcuda.driver.CUfunction;
import jcuda.driver.JCudaDriver;

/** A kernel launch; its arguments are copied to a block of memory once. */
final class Launch implements Work {
    private static final int WORD = 8;

    private final GpuContext context;
    private final CUfunction function;
    private final String name;
    private final Grid grid;
    private final Pointer arguments;

    /**
     * A launch.
     *
     * @param arguments Long, Integer, Float and Double in the kernel's order
     */
    Launch(GpuContext context, CUfunction function, String name, Grid grid, List<Object> arguments) {
        this.context = context;
        this.function = function;
        this.name = name;
        this.grid = grid;
        ByteBuffer block =
                ByteBuffer.allocateDirect(Math.max(1, arguments.size()) * WORD).order(ByteOrder.nativeOrder());
        Pointer[] places = new Pointer[arguments.size()];
        for (int i = 0; i < places.length; i++) {
            put(block, i * WORD, arguments.get(i));
            places[i] = Pointer.to(block).withByteOffset((long) i * WORD);
        }
        this.arguments = Pointer.to(places);
    }

    private static void put(ByteBuffer block, int at, Object argument) {
        switch (argument) {
            case Long x -> block.putLong(at, x);
            case Integer x -> block.putInt(at, x);
            case Float x -> block.putFloat(at, x);
            case Double x -> block.putDouble(at, x);
            default -> throw new IllegalArgumentException("an argument of " + argument.getClass());
        }
    }

    @Override
    public void run() {
        context.check(
                JCudaDriver.cuLaunchKernel(
                        function,
                        (int) grid.x(),
                        grid.y(),
                        grid.z(),
                        grid.threads(),
                        1,
                        1,
                        grid.sharedBytes(),
                        context.stream(),
                        arguments,
                        null),
                "cuLaunchKernel of " + name);
    }

    @Override
    public String name() {
        return name;
    }
}
