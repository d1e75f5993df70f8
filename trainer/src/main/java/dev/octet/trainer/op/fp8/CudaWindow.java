package dev.octet.trainer.op.fp8;

import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;

/**
 * {@link Window} on a GPU, as addresses.
 *
 * @param slot format and rule
 * @param quantScale the multiplier so far
 * @param window amaxes and the number of steps
 * @param newQuantScale where the multiplier goes; may be the same
 * @param newWindow where the window goes; may be the same
 */
record CudaWindow(WindowUpdate.Slot slot, long quantScale, long window, long newQuantScale, long newWindow) {
    /** A state, changed in place. */
    static CudaWindow inPlace(WindowUpdate.Slot slot, long quantScale, long window) {
        return new CudaWindow(slot, quantScale, window, quantScale, window);
    }

    /** Writes the multiplier of {@code x} and the window. */
    void cast(CudaCodes x, CudaStream cuda) {
        long amax = cuda.workspace(Float.BYTES);
        long amaxWithNaN = cuda.workspace(Float.BYTES);
        cuda.zero(amax, Float.BYTES);
        cuda.zero(amaxWithNaN, Float.BYTES);
        x.amax(amax, false);
        x.amax(amaxWithNaN, true);
        cuda.launch(
                CudaCodes.SOURCE,
                "window_cast",
                Grid.of(1, 32),
                amax,
                amaxWithNaN,
                slot.rule().size(),
                slot.format().maxValue(),
                slot.rule().rule().quirks() ? 1 : 0,
                quantScale,
                window,
                newQuantScale,
                newWindow);
    }
}
