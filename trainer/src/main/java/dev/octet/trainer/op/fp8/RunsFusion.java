package dev.octet.trainer.op.fp8;

import dev.octet.quant.scale.TransformerEngineScale;
import dev.octet.trainer.kernel.CudaCall;
import dev.octet.trainer.kernel.CudaFusion;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import java.util.List;

/**
 * What a Linear with scales of runs of 128 takes of its input: codes of runs along the rows for the forward product, and of runs along the columns, which only the
 * weight's gradient takes, transposed. Both from one reading instead of four.
 */
public final class RunsFusion implements CudaFusion {
    @Override
    public int length(List<CudaCall> calls, int at) {
        return at + 1 < calls.size()
                        && calls.get(at).isForward(QuantizeFp8.class)
                        && calls.get(at + 1).isForward(QuantizeFp8.class)
                        && calls.get(at).op() instanceof QuantizeFp8 rows
                        && calls.get(at + 1).op() instanceof QuantizeFp8 columns
                        && calls.get(at)
                                .frame()
                                .input(0)
                                .equals(calls.get(at + 1).frame().input(0))
                        && !columns.records()
                        && CudaCodes.isPair(rows.form(), columns.form())
                ? 2
                : 0;
    }

    /** Whether somebody takes the codes of columns as they lie, or the transpose of those of rows. */
    private static boolean isApart(List<CudaCall> calls, CudaStream cuda) {
        CudaTensor rows = calls.getFirst().frame().output(0);
        CudaTensor columns = calls.getLast().frame().output(0);
        return cuda.isTaken(columns)
                || cuda.wanted(rows, CudaCodes.TRANSPOSED) != 0
                || cuda.wanted(columns, CudaCodes.TRANSPOSED) == 0;
    }

    @Override
    public void write(List<CudaCall> calls, CudaStream cuda) {
        if (isApart(calls, cuda)) {
            calls.forEach(c -> QuantizeFp8.ENTRY.cuda().forward((QuantizeFp8) c.op(), c.frame(), cuda));
            return;
        }
        CudaCall rows = calls.getFirst();
        CudaCall columns = calls.getLast();
        QuantizeFp8 op = (QuantizeFp8) rows.op();
        new CudaCodes(rows.frame().input(0), op.form(), cuda)
                .castRuns(
                        (TransformerEngineScale) op.rule(),
                        new CudaCodes.Runs(
                                rows.frame().output(0).address(),
                                rows.frame().output(1).address(),
                                cuda.wanted(columns.frame().output(0), CudaCodes.TRANSPOSED),
                                columns.frame().output(1).address(),
                                0,
                                op.records() ? rows.frame().output(2).address() : 0));
    }

    @Override
    public void writeUnread(List<CudaCall> calls, CudaStream cuda) {
        if (!isApart(calls, cuda)) {
            CudaCall columns = calls.getLast();
            QuantizeFp8.ENTRY.cuda().forward((QuantizeFp8) columns.op(), columns.frame(), cuda);
        }
    }
}
