package dev.octet.trainer.op.fp8;

import dev.octet.quant.block.Blocks;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.scale.WindowedScale;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Parallel;

/** One cast with {@link WindowedScale}: which multiplier it takes, and what of it is remembered. */
final class Window {
    private Window() {}

    /**
     * The multiplier.
     *
     * @param window read; and written when {@code records}, as is {@code quantScale}
     */
    static float cast(
            CpuTensor x,
            Blocks blocks,
            Float8Format format,
            WindowedScale rule,
            CpuTensor quantScale,
            CpuTensor window,
            boolean records,
            Parallel parallel) {
        float[] all = new float[rule.length()];
        float[] before = new float[1];
        window.read(0, all, 0, all.length);
        quantScale.read(0, before, 0, 1);
        // what is cast with an earlier scale leaves NaN out, as Transformer Engine's cast does
        float amax = new MatrixCodes(blocks, parallel).amax(x, rule.isInTime(all))[0];
        float[] now = {rule.cast(all, before[0], amax, format.maxValue())};
        if (records) {
            window.write(0, all, 0, all.length);
            quantScale.write(0, now, 0, 1);
        }
        return now[0];
    }

    /**
     * The same on a GPU.
     *
     * @param quantScale address it is read from
     * @param window address it is read from
     * @param newWindow address it is written to; may be the same
     * @return address of the multiplier, {@code newQuantScale}
     */
    static long cast(
            CudaCodes x,
            Float8Format format,
            WindowedScale rule,
            long quantScale,
            long window,
            long newQuantScale,
            long newWindow,
            CudaStream cuda) {
        long amax = cuda.workspace(Float.BYTES);
        long amaxWithNaN = cuda.workspace(Float.BYTES);
        cuda.zero(amax, Float.BYTES);
        cuda.zero(amaxWithNaN, Float.BYTES);
        x.amax(amax, false);
        x.amax(amaxWithNaN, true);
        cuda.launch(
                CudaCodes.SOURCE,
                "window_cast",
                Grid.of(1, 1),
                amax,
                amaxWithNaN,
                rule.size(),
                format.maxValue(),
                rule.rule().quirks() ? 1 : 0,
                quantScale,
                window,
                newQuantScale,
                newWindow);
        return newQuantScale;
    }

    static CudaCodes whole(CudaTensor x, Float8Format format, CudaStream cuda) {
        int cols = Math.toIntExact(x.shape().rank() == 0 ? 1 : x.shape().dim(-1));
        int rows = cols == 0 ? 0 : Math.toIntExact(x.count() / cols);
        return new CudaCodes(x, new CodedMatrix(format, CodedMatrix.whole(rows, cols), null), cuda);
    }
}
