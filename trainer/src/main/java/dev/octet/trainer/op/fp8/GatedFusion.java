package dev.octet.trainer.op.fp8;

import dev.octet.trainer.kernel.CudaCall;
import dev.octet.trainer.kernel.CudaFusion;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.op.gated.GatedProduct;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * What a gated MLP does between its Linears, with the cast of the result to FP8: gate and up are read once. The activation is written only where something takes it, which
 * backward does not when {@link GatedGradientFusion} writes it.
 */
public final class GatedFusion implements CudaFusion {
    private record Match(GatedProduct product, @Nullable CudaCall quantizer) {
        static @Nullable Match of(List<CudaCall> calls, int at) {
            GatedProduct product = GatedProduct.of(calls, at);
            if (product == null) {
                return null;
            }
            int next = at + product.steps().size();
            CudaCall cast = next < calls.size() ? calls.get(next) : null;
            boolean casts = cast != null
                    && cast.isForward(QuantizeFp8Delayed.class)
                    && cast.frame().input(0).equals(product.y());
            return new Match(product, casts ? cast : null);
        }

        boolean isRead() {
            return quantizer == null || product.product().readers().applyAsInt(0) > 1;
        }
    }

    @Override
    public int length(List<CudaCall> calls, int at) {
        Match match = Match.of(calls, at);
        return match == null ? 0 : match.product().steps().size() + (match.quantizer() == null ? 0 : 1);
    }

    @Override
    public void write(List<CudaCall> calls, CudaStream cuda) {
        Match match = Objects.requireNonNull(Match.of(calls, 0));
        GatedProduct product = match.product();
        product.writeActivation(true, cuda);
        CudaCall quantizer = match.quantizer();
        if (quantizer == null) {
            product.write(cuda);
            return;
        }
        QuantizeFp8Delayed op = (QuantizeFp8Delayed) quantizer.op();
        Frame<CudaTensor> cast = quantizer.frame();
        CudaTensor y = product.y();
        long written = match.isRead() ? y.address() : 0;
        List<Object> operands = List.of(
                product.gate(), product.up(), written, product.activation().number());
        QuantizeFp8DelayedCuda.matrix(op, y, cuda)
                .cast("gated", operands, QuantizeFp8DelayedCuda.target(op, cast, cuda));
    }

    @Override
    public void writeUnread(List<CudaCall> calls, CudaStream cuda) {
        Match match = Objects.requireNonNull(Match.of(calls, 0));
        match.product().writeActivation(false, cuda);
        if (!match.isRead()) {
            match.product().write(cuda);
        }
    }
}
