package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.state.CudaState;
import dev.octet.trainer.state.StateForm;
import java.util.function.IntFunction;

/** The numbers in F32 for as long as the step runs, then amax, scale and codes, with their transpose where a product wants it. */
final class QuantizeStateCuda implements CudaKernel.Forward<QuantizeState> {
    @Override
    public void forward(QuantizeState op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor codes = frame.output(0);
        if (codes.count() == 0) {
            return;
        }
        CudaTensor numbers = decoded(op.form(), op.tensor(), frame::input, cuda);
        int cols = Math.toIntExact(op.tensor().shape().dim(-1));
        int rows = Math.toIntExact(op.tensor().count() / cols);
        CudaCodes matrix =
                new CudaCodes(numbers, new CodedMatrix(op.format(), CodedMatrix.whole(rows, cols), op.rule()), cuda);
        long quantScales = matrix.quantScales(op.rule(), frame.output(1).address(), 0);
        matrix.encode(codes.address(), cuda.wanted(codes, CudaCodes.TRANSPOSED), quantScales);
    }

    /** The numbers of a kept tensor in F32. */
    static CudaTensor decoded(StateForm form, OperandType tensor, IntFunction<CudaTensor> operands, CudaStream cuda) {
        OperandType type = tensor.as(DType.F32);
        CudaTensor numbers = new CudaTensor(type, cuda.workspace(type.byteSize()));
        long[] words = CudaState.words(form, tensor, operands, 0);
        cuda.launch(
                CudaState.SOURCE,
                "decode_kept",
                Grid.over(numbers.count(), 256, 8),
                (int) words[0],
                words[1],
                words[2],
                CudaState.quantiles(cuda),
                numbers.count(),
                CudaSource.code(DType.F32),
                numbers);
        return numbers;
    }
}
