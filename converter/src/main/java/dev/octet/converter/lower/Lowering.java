package dev.octet.converter.lower;

import dev.octet.converter.expand.OpsetDecompositions;
import dev.octet.converter.pass.PassLog;
import dev.octet.converter.pass.ShareShapes;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import java.lang.foreign.Arena;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Spells a rewritten model in standard ONNX for one target. */
public final class Lowering {
    /** FP8 types came with opset 19, blocked and 2-byte scales with 21; 21 is what both targets read (IR 10). */
    public static final long MIN_OPSET = 21;

    private static final long MIN_IR = 10;

    private Lowering() {}

    /**
     * The same function without operators of Octet's domain. A model with Attention in one node is brought to opset {@value #MIN_OPSET}:
     * ONNX Runtime takes the shape of its output for empty where a Gemm reads it, and TensorRT does not support it.
     *
     * @param arena owns the few new constants (zero points, transposed codes)
     * @throws dev.octet.formats.error.UnsupportedModelException when a model with Attention has a node with no form at that opset
     */
    public static GraphModel lower(GraphModel rewritten, OnnxTarget target, Arena arena, PassLog log) {
        GraphModel model = withoutAttention(rewritten);
        GraphEdit edit = GraphEdit.of(model.graph());
        NodeEmitter emit = new NodeEmitter(edit, arena);
        MatMulForm matMul = new MatMulForm(emit);
        FlattenGemmForm flatten = new FlattenGemmForm(emit);
        DynamicForm dynamic = new DynamicForm(emit);
        ProductForm products = new ProductForm(emit, target);
        for (Node n : edit.nodes()) {
            // only 8-bit floats need the detour by Gemm
            LinearForm form = target == OnnxTarget.ONNXRUNTIME && format(n).isFloat() ? flatten : matMul;
            if (n.isOctet("Quantize")) {
                form.quantize(n, n.input(0), codes(n, 1, target, emit));
                edit.remove(n);
            } else if (n.isOctet("QuantizeDynamic")) {
                dynamic.quantize(n, type(n));
            } else if (n.isOctet("QuantizingLayerNorm")) {
                lowerNorm(edit, form, n, codes(n, 3, target, emit), 3);
            } else if (n.isOctet("QuantizingRmsNorm")) {
                lowerNorm(edit, form, n, codes(n, 2, target, emit), 2);
            } else if (n.isOctet("QuantizedProduct")) {
                products.product(n, format(n), type(n));
            } else if (n.isOctet("QuantizedLinear")) {
                if (n.hasInput(3) && edit.initializer(n.input(3)) == null) {
                    dynamic.linear(n, type(n));
                } else {
                    form.linear(n);
                }
            }
        }
        GraphModel lowered = model.withGraph(edit.build());
        if (lowered.opset() < MIN_OPSET) {
            lowered = lowered.withOpset("", MIN_OPSET, MIN_IR);
        }
        return withoutScaffolding(new ShareShapes().apply(new StandardOps().apply(lowered, log), log));
    }

    private static GraphModel withoutAttention(GraphModel model) {
        boolean attention = model.graph().nodes().stream().anyMatch(n -> n.is("Attention"));
        return attention ? OpsetDecompositions.apply(model, (int) MIN_OPSET) : model;
    }

    /**
     * A canonical model in ONNX's own operators at one opset; attention, rotary embeddings and RMS normalisations are one node each from 23
     * on, and several nodes below.
     *
     * @param opset 21 or later
     * @throws dev.octet.formats.error.UnsupportedModelException when a node has no form at that opset
     */
    public static GraphModel standard(GraphModel model, int opset, PassLog log) {
        GraphModel standard = new StandardOps().apply(OpsetDecompositions.apply(model, opset), log);
        return withoutScaffolding(new ShareShapes().apply(standard, log));
    }

    /** Without what only the passes needed: types of inner values (consumers infer them) and their remarks on constants. */
    private static GraphModel withoutScaffolding(GraphModel model) {
        Graph g = model.graph();
        Map<String, Initializer> constants = new LinkedHashMap<>();
        g.initializers()
                .forEach((name, i) ->
                        constants.put(name, new Initializer(i.name(), i.data(), i.doc(), Map.of(), i.unknown())));
        return model.withGraph(new Graph(
                g.name(), g.nodes(), constants, g.inputs(), g.outputs(), Map.of(), g.doc(), g.metadata(), g.unknown()));
    }

    /** The norm becomes the plain canonical one, followed by the quantisation of its output; its scale input is the last one. */
    private static void lowerNorm(GraphEdit edit, LinearForm form, Node n, LinearForm.Codes codes, int scaleInput) {
        String opType = n.isOctet("QuantizingLayerNorm") ? "LayerNormalization" : "RMSNormalization";
        String y = n.output(1).isEmpty() ? edit.freshName(n.output() + "_y") : n.output(1);
        List<String> inputs = n.inputs().subList(0, scaleInput);
        while (inputs.getLast().isEmpty()) {
            inputs = inputs.subList(0, inputs.size() - 1);
        }
        Node norm = Node.of(n.name(), opType, Node.OCTET_DOMAIN, inputs, List.of(y));
        for (String kept : List.of("axis", "epsilon")) {
            if (n.attributes().containsKey(kept)) {
                norm = norm.with(n.attributes().get(kept));
            }
        }
        edit.insertBefore(n, norm);
        form.quantize(n, y, codes);
        edit.remove(n);
    }

    /**
     * What a node hands on. For ONNX Runtime integers with a zero point become unsigned ones, all codes 128 higher: on x86 its kernels multiply
     * U8 by S8, and it turns S8 into U8 itself only where one Linear reads the codes (version 1.30, QDQS8ToU8Transformer).
     */
    private static LinearForm.Codes codes(Node n, int scaleInput, OnnxTarget target, NodeEmitter emit) {
        String scale = n.input(scaleInput);
        String zero = n.input(scaleInput + 1);
        return target == OnnxTarget.ONNXRUNTIME && !zero.isEmpty()
                ? new LinearForm.Codes(n.output(), scale, emit.unsigned(zero), DType.U8)
                : new LinearForm.Codes(n.output(), scale, zero, format(n));
    }

    private static DType type(Node n) {
        return DType.valueOf(n.textAttribute("type", DType.F32.name()));
    }

    private static DType format(Node n) {
        return DType.valueOf(n.textAttribute("format", DType.F8_E4M3FN.name()));
    }
}
