package dev.octet.trainer.op.gelu;

import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * {@code y = x Φ(x)}, Φ the normal distribution function (ONNX Gelu 20, {@code approximate = none}), or, with {@code tanh},
 * {@code y = x/2 (1 + tanh(√(2/π) (x + 0.044715 x³)))} (Hendrycks and Gimpel, arXiv:1606.08415).
 */
public record Gelu(OperandType x, boolean tanh) implements Op {
    /** √(2/π). */
    static final double SLOPE = Math.sqrt(2 / Math.PI);

    static final double CUBE = 0.044715;

    /** Its row in the table of operators. */
    public static final OpEntry<Gelu> ENTRY = OpEntry.of(Gelu.class, new GeluReference(), new GeluCpu(), new GeluCuda())
            .onnx("Gelu", Gelu::read)
            .octet("Gelu", Gelu::read);

    /** Reads Gelu of ONNX's or Octet's domain. */
    static Gelu read(OpSource source) {
        String approximate = source.node().textAttribute("approximate", "none");
        return switch (approximate) {
            case "none" -> new Gelu(source.input(0), false);
            case "tanh" -> new Gelu(source.input(0), true);
            default ->
                throw source.refusal("approximate '" + approximate + "' is unknown", "ONNX knows 'none' and 'tanh'");
        };
    }

    @Override
    public String type() {
        return "Gelu";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(x);
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return true;
    }
}
