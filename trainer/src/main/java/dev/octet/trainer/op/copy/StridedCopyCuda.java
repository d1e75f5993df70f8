package dev.octet.trainer.op.copy;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Half;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.List;

/** A copy for each box, whatever the type. Only what no box reaches is filled first. */
final class StridedCopyCuda<O extends StridedCopyOp> implements CudaKernel<O> {
    @Override
    public void forward(O op, Frame<CudaTensor> frame, CudaStream cuda) {
        List<StridedCopy> boxes = op.boxes();
        for (int j = 0; j < op.outputs().size(); j++) {
            int output = j;
            CudaTensor y = frame.output(j);
            if (boxes.stream()
                            .filter(b -> b.output() == output)
                            .mapToLong(StridedCopy::count)
                            .sum()
                    < y.count()) {
                CudaCopy.fill(y, bits(y.dtype(), op.fill()), cuda);
            }
        }
        for (StridedCopy b : boxes) {
            copy(b).write(frame.input(b.input()), frame.output(b.output()), cuda);
        }
    }

    @Override
    public void backward(O op, Frame<CudaTensor> frame, CudaStream cuda) {
        List<StridedCopy> boxes =
                op.boxes().stream().filter(b -> frame.hasUpstream(b.output())).toList();
        int inputs = op.boxes().stream().mapToInt(b -> b.input() + 1).max().orElse(0);
        for (int i = 0; i < inputs; i++) {
            int input = i;
            if (frame.wantsGradient(i)
                    && boxes.stream()
                                    .filter(b -> b.input() == input)
                                    .mapToLong(StridedCopy::count)
                                    .sum()
                            < frame.gradient(i).count()) {
                CudaCopy.fill(frame.gradient(i), 0, cuda);
            }
        }
        for (StridedCopy b : boxes) {
            if (frame.wantsGradient(b.input())) {
                back(b).write(frame.upstream(b.output()), frame.gradient(b.input()), cuda);
            }
        }
    }

    private static CudaCopy copy(StridedCopy b) {
        return new CudaCopy(
                array(b.dims()), b.inputStart(), array(b.inputSteps()), b.outputStart(), array(b.outputSteps()));
    }

    private static CudaCopy back(StridedCopy b) {
        return new CudaCopy(
                array(b.dims()), b.outputStart(), array(b.outputSteps()), b.inputStart(), array(b.inputSteps()));
    }

    private static long[] array(List<Long> numbers) {
        return numbers.stream().mapToLong(Long::longValue).toArray();
    }

    private static long bits(DType type, double value) {
        return switch (type) {
            case F32 -> Float.floatToRawIntBits((float) value) & 0xFFFFFFFFL;
            case BF16 -> BFloat16.fromFloat((float) value) & 0xFFFFL;
            case F16 -> Half.fromFloat((float) value) & 0xFFFFL;
            case F64 -> Double.doubleToRawLongBits(value);
            default -> (long) value;
        };
    }
}
