package dev.octet.trainer.op.cast;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * The same elements in another type. To a narrower float type values are rounded to nearest even (beyond its range they become
 * infinite); to an integer they are cut off; to a truth value they are 1 unless 0. The gradient is cast back.
 */
public record Cast(OperandType from, DType to) implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<Cast> ENTRY = OpEntry.of(Cast.class, new CastReference(), new CastCpu(), new CastCuda())
            .onnx("Cast", Cast::read);

    /** Reads ONNX Cast of any opset. */
    static Cast read(OpSource source) {
        int id = Math.toIntExact(source.node().intAttribute("to", 0));
        DType to = DType.ofOnnxId(id)
                .filter(Cast::isKnown)
                .orElseThrow(() -> source.refusal(
                        "programs do not compute with ONNX element type " + id,
                        "train the model before it is quantised, in F32, F16 or BF16"));
        OperandType from = source.input(0);
        if (!isKnown(from.dtype())) {
            throw source.refusal(
                    "programs do not compute with " + from.dtype(),
                    "train the model before it is quantised, in F32, F16 or BF16");
        }
        return new Cast(from, to);
    }

    private static boolean isKnown(DType dtype) {
        return switch (dtype) {
            case F32, F16, BF16, F64, I64, I32, I8, U8, BOOL -> true;
            default -> false;
        };
    }

    @Override
    public String type() {
        return "Cast";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(from.as(to));
    }

    @Override
    public boolean isDifferentiable(int i) {
        return to.isFloat();
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return false;
    }

    @Override
    public boolean isView() {
        return from.dtype() == to;
    }

    @Override
    public boolean canAccumulate(int i) {
        return true;
    }
}
