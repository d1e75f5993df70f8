package dev.octet.trainer.device.cuda;

import static dev.octet.trainer.device.cuda.CudnnAttribute.*;

import dev.octet.trainer.device.cuda.AttentionPlans.Plan;
import dev.octet.trainer.device.cuda.CudnnAttention.Slot;
import dev.octet.trainer.device.cuda.CudnnAttribute.Kind;
import dev.octet.trainer.kernel.CudaAttention;
import dev.octet.trainer.kernel.CudaAttention.Gradients;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/** Attention by a plan of cuDNN, with its addresses. */
final class AttentionWork implements Work {
    private final Cudnn cudnn;
    private final long handle;
    private final Plan plan;
    private final CudaAttention attention;
    private final Runnable enter;
    /** Holds the plan's numbers, which the library reads when the work runs. */
    private final Arena numbers = Arena.ofShared();

    private final long pack;

    AttentionWork(Cudnn cudnn, long handle, Plan plan, CudaAttention attention, long workspace, Runnable enter) {
        this.cudnn = cudnn;
        this.handle = handle;
        this.plan = plan;
        this.attention = attention;
        this.enter = enter;
        List<Long> ids = new ArrayList<>();
        List<Long> addresses = new ArrayList<>();
        plan.attention().ids().forEach((slot, id) -> {
            ids.add(id);
            addresses.add(address(slot, workspace + plan.bytes()));
        });
        plan.attention().graph().scalars().forEach((id, value) -> {
            ids.add(id);
            addresses.add(numbers.allocateFrom(ValueLayout.JAVA_FLOAT, value).address());
        });
        pack = cudnn.create(Kind.VARIANT_PACK);
        cudnn.set(pack, VARIANT_PACK_UNIQUE_IDS, array(ids));
        cudnn.set(pack, VARIANT_PACK_DATA_POINTERS, array(addresses));
        cudnn.set(pack, VARIANT_PACK_WORKSPACE, workspace);
        cudnn.finish(pack, "addresses");
    }

    private static long[] array(List<Long> numbers) {
        return numbers.stream().mapToLong(x -> x).toArray();
    }

    private long address(Slot slot, long dots) {
        Gradients g = attention.gradients();
        return switch (slot) {
            case Q -> attention.q().address();
            case K -> attention.k().address();
            case V -> attention.v().address();
            case Y -> attention.y().address();
            case LOG_SUMS -> attention.logSums();
            case BIAS -> attention.bias();
            case DY -> required(g).dy().address();
            case DQ -> required(g).dq().address();
            case DK -> required(g).dk().address();
            case DV -> required(g).dv().address();
            case DOTS -> dots;
        };
    }

    private static Gradients required(@Nullable Gradients gradients) {
        return Objects.requireNonNull(gradients, "a plan of gradients for none");
    }

    @Override
    public void run() {
        enter.run();
        cudnn.execute(handle, plan.plan(), pack);
    }

    @Override
    public String name() {
        return attention.name();
    }

    @Override
    public long bytes() {
        return attention.bytes();
    }

    @Override
    public void close() {
        cudnn.free(pack);
        numbers.close();
    }
}
