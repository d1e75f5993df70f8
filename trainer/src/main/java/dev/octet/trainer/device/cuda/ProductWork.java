package dev.octet.trainer.device.cuda;

import dev.octet.trainer.kernel.CudaProduct;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/** A matrix product with its algorithm. */
final class ProductWork implements Work {
    private final GpuContext context;
    private final CublasLt lt;
    private final long handle;
    private final CudaProduct product;
    private final ProductDescription description;
    private final CublasLt.Place place;
    private final Arena arena = Arena.ofShared();
    private final MemorySegment alpha;
    private final MemorySegment beta;
    private final MemorySegment algorithm;

    /** Takes ownership of the description. */
    ProductWork(
            GpuContext context,
            CublasLt lt,
            long handle,
            CudaProduct product,
            ProductDescription description,
            byte[] algorithm,
            CublasLt.Place place) {
        this.context = context;
        this.lt = lt;
        this.handle = handle;
        this.product = product;
        this.description = description;
        this.place = place;
        alpha = arena.allocateFrom(ValueLayout.JAVA_FLOAT, 1f);
        beta = arena.allocateFrom(ValueLayout.JAVA_FLOAT, product.accumulate() ? 1f : 0f);
        this.algorithm = arena.allocate(CublasLt.ALGORITHM_BYTES, 8);
        this.algorithm.copyFrom(MemorySegment.ofArray(algorithm));
    }

    @Override
    public void run() {
        run(Addresses.of(product), algorithm);
    }

    /** Addresses of a product's matrices. */
    record Addresses(long a, long b, long d) {
        static Addresses of(CudaProduct p) {
            return new Addresses(p.a().address(), p.b().address(), p.d().address());
        }
    }

    /** Runs on other matrices and with another algorithm, for measurements. */
    void run(Addresses at, MemorySegment other) {
        context.enter();
        // operands are swapped, see ProductDescription
        lt.multiply(handle, description.descriptors(), alpha, at.b(), at.a(), beta, at.d(), other, place);
    }

    @Override
    public String name() {
        return product.name();
    }

    @Override
    public long bytes() {
        return product.bytes();
    }

    /** Frees everything except the description. */
    void release() {
        arena.close();
    }

    @Override
    public void close() {
        description.close();
        release();
    }
}
