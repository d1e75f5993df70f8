package dev.octet.trainer.device.cpu;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.tensor.DType;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.device.Offload;
import dev.octet.trainer.device.Offload.Place;
import dev.octet.trainer.gemm.Gemms;
import dev.octet.trainer.gemm.ThreadTeam;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.MatrixProducts;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import java.util.Collection;
import java.util.List;
import java.util.Map;

/** The CPU, with a number of threads that does not affect results. */
public final class CpuDevice implements Device {
    private static final double TRIAL_SECONDS = 5;

    private final CpuContext context;
    private final String products;
    private long limitBytes = HostMemory.find().map(HostMemory::limitBytes).orElse(Long.MAX_VALUE);

    /** A device of {@code threads} threads that computes products with {@code gemm}. */
    public CpuDevice(int threads, MatrixProducts gemm) {
        this(threads, gemm, gemm.name());
    }

    private CpuDevice(int threads, MatrixProducts gemm, String products) {
        this.context = new CpuContext(new ThreadTeam(threads), gemm);
        this.products = products;
    }

    /** A device of {@code threads} threads with the fastest available matrix products. */
    public static CpuDevice of(int threads) {
        return new CpuDevice(threads, Gemms.best(), Gemms.text());
    }

    /** This device, which from now on lets programs take at most so many bytes; {@link Long#MAX_VALUE} for any number. It begins with {@link HostMemory#limitBytes}, where that is known. */
    public CpuDevice limitedTo(long bytes) {
        limitBytes = bytes;
        return this;
    }

    @Override
    public long limitBytes() {
        return limitBytes;
    }

    @Override
    public String name() {
        return "cpu";
    }

    @Override
    public String products() {
        return products;
    }

    /** The implementation of matrix products. */
    public MatrixProducts gemm() {
        return context.gemm();
    }

    /**
     * Measures how fast it is, in about half a second.
     *
     * @param type of the operands of products: F32, BF16 or F16
     */
    public CpuRates rates(DType type) {
        return CpuRates.of(context, type);
    }

    /**
     * Tries what steps take, in a few seconds.
     *
     * @param steps in the order of their program
     * @param states what they start from, F32 elements of each; a single number fills the tensor
     * @param type of the operands of products by which those are reckoned that cannot be tried
     * @param mostBytes of memory to try in
     */
    public StepTrial trial(List<Step> steps, Map<Value, List<Float>> states, DType type, long mostBytes) {
        return StepTrial.of(context, rates(type), new StepTrial.Steps(steps, states), mostBytes, TRIAL_SECONDS);
    }

    @Override
    public Memory allocate(Collection<Value> lasting) {
        return allocate(lasting, Offload.NONE);
    }

    /** Values on disk lie in mapped files; the host's memory is that of this device, so that nothing can be moved there. */
    @Override
    public Memory allocate(Collection<Value> lasting, Offload offload) {
        if (offload.uses(Place.HOST)) {
            throw new InvalidOptionException(
                    "the host's memory is what the CPU computes in: there is nothing to move there",
                    "offload: host",
                    "on the CPU use offload: {states: disk, path: DIR}, or leave offload out");
        }
        CpuMemory memory = new CpuMemory(offload);
        lasting.forEach(memory::segment);
        return memory;
    }

    @Override
    public Executable load(Program program, Memory memory) {
        if (!(memory instanceof CpuMemory own)) {
            throw new IllegalArgumentException("memory of another device");
        }
        return new CpuExecutable(program, own, context);
    }

    @Override
    public void close() {
        context.parallel().close();
    }
}
