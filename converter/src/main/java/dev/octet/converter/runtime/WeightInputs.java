package dev.octet.converter.runtime;

import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.work.Workers;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Turns the weights of a graph into inputs. ONNX Runtime then uses this single copy of a weight instead of up to three of its own: as read,
 * as folded, as packed. BF16 and F16 weights that the graph widens to F32 are widened here once.
 *
 * <p>Products with a transposed weight become ONNX Runtime's FusedMatMul, which reads the weight as stored.
 */
final class WeightInputs implements AutoCloseable {
    /** The longest buffer that ONNX Runtime's Java API takes. */
    static final long MAX_BYTES = Integer.MAX_VALUE;

    private static final String MICROSOFT = "com.microsoft";
    /** Elements that one thread widens in one step. */
    private static final int TILE = 1 << 16;
    /** Least size of mapped weights that are released from memory after use. */
    private static final long UNLOAD_BYTES = 1 << 20;

    private final GraphModel model;
    private final Map<String, Tensor> tensors;
    private final Arena arena;

    private WeightInputs(GraphModel model, Map<String, Tensor> tensors, Arena arena) {
        this.model = model;
        this.tensors = tensors;
        this.arena = arena;
    }

    /** Whether a constant is a weight: floating-point numbers in at least two dimensions. */
    static boolean isWeight(Initializer i) {
        return i.tensor().map(WeightInputs::isWeight).orElse(false);
    }

    private static boolean isWeight(Tensor t) {
        boolean matrix = Arrays.stream(t.shape().toArray()).filter(d -> d > 1).count() >= 2;
        return matrix && (t.dtype() == DType.F32 || isNarrow(t));
    }

    private static boolean isNarrow(Tensor t) {
        return t.dtype() == DType.BF16 || t.dtype() == DType.F16;
    }

    private static boolean isWidening(Node n) {
        return n.is("Cast") && n.intAttribute("to", 0) == DType.F32.onnxId();
    }

    /** Bytes of a weight while its {@code readers} run: of F32 if they widen it. */
    static long bytes(Tensor weight, List<Node> readers) {
        long widened = readers.stream().anyMatch(WeightInputs::isWidening)
                ? weight.shape().elementCount() * Float.BYTES
                : 0;
        boolean asStored = readers.stream().anyMatch(n -> !isWidening(n));
        return widened + (asStored ? weight.bytes().byteSize() : 0);
    }

    /**
     * Takes the weights out of a graph.
     *
     * @throws UnsupportedModelException when a weight is longer than ONNX Runtime takes
     */
    static WeightInputs of(GraphModel model, int threads) {
        GraphEdit edit = GraphEdit.of(model.graph());
        Arena arena = Arena.ofShared();
        boolean done = false;
        try {
            Map<String, Tensor> tensors = new LinkedHashMap<>();
            for (String name : edit.initializerNames()) {
                Initializer i = edit.initializer(name);
                if (i != null && isWeight(i) && !edit.isOutput(name)) {
                    take(edit, i.tensor().orElseThrow(), name, tensors, arena, threads);
                }
            }
            boolean fused = readWhereTheyLie(edit, tensors.keySet());
            Set<String> known = new LinkedHashSet<>();
            List<ValueInfo> inputs = new ArrayList<>();
            edit.inputs().stream().filter(v -> known.add(v.name())).forEach(inputs::add);
            // IR 3 lists constants among the inputs
            inputs.removeIf(v -> tensors.containsKey(v.name()));
            tensors.forEach((name, t) -> inputs.add(info(name, t)));
            edit.setInputs(inputs);
            edit.removeUnreachable();
            GraphModel fed = model.withGraph(edit.build());
            WeightInputs weights = new WeightInputs(fused ? fed.withOpset(MICROSOFT, 1, 0) : fed, tensors, arena);
            done = true;
            return weights;
        } finally {
            if (!done) {
                arena.close();
            }
        }
    }

    /** The declaration of this tensor as a value of a graph. */
    static ValueInfo info(String name, Tensor t) {
        List<Dim> dims = Arrays.stream(t.shape().toArray()).mapToObj(Dim::of).toList();
        return new ValueInfo(name, new ValueType.TensorType(t.dtype(), dims));
    }

    private static void take(
            GraphEdit edit, Tensor stored, String name, Map<String, Tensor> tensors, Arena arena, int threads) {
        List<Node> widening = isNarrow(stored)
                ? edit.consumers(name).stream()
                        .filter(n -> isWidening(n) && !edit.isOutput(n.output()))
                        .toList()
                : List.of();
        boolean asStored = edit.consumers(name).size() > widening.size();
        edit.removeInitializer(name);
        if (asStored) {
            tensors.put(name, checked(owned(stored, arena).withName(name)));
        }
        if (!widening.isEmpty()) {
            String f32 = asStored ? edit.freshName(name + "_f32") : name;
            TensorSpec spec = checked(new TensorSpec(f32, DType.F32, stored.shape()));
            tensors.put(f32, widened(stored, spec, arena, threads));
            for (Node cast : widening) {
                edit.redirect(cast.output(), f32);
                edit.remove(cast);
            }
        }
    }

    private static Tensor checked(Tensor t) {
        checked(t.spec());
        return t;
    }

    private static TensorSpec checked(TensorSpec spec) {
        if (spec.byteSize() > MAX_BYTES) {
            throw new UnsupportedModelException(
                    "the weight has " + spec.byteSize() + " bytes, but ONNX Runtime's Java API takes at most "
                            + MAX_BYTES + " per tensor",
                    "tensor '" + spec.name() + "', " + spec,
                    "calibrate a smaller model of the family, or split the weight in the model");
        }
        return spec;
    }

    /**
     * A copy of a mapped tensor: if another program shortened the file, native code that reads the mapping would end the process with
     * SIGBUS. Releases the file's pages.
     */
    private static Tensor owned(Tensor stored, Arena arena) {
        if (!stored.bytes().isMapped()) {
            return stored;
        }
        Tensor copy = Tensor.allocate(arena, checked(stored.spec()));
        copy.bytes().copyFrom(stored.bytes());
        letGo(stored);
        return copy;
    }

    private static Tensor widened(Tensor narrow, TensorSpec spec, Arena arena, int threads) {
        Tensor wide = Tensor.allocate(arena, spec);
        long n = spec.shape().elementCount();
        Workers.run(Math.toIntExact(Math.ceilDiv(n, TILE)), threads, tile -> {
            long from = (long) tile * TILE;
            int count = (int) Math.min(TILE, n - from);
            short[] in = new short[count];
            float[] out = new float[count];
            MemorySegment.copy(narrow.bytes(), Tensor.I16_LE, from * Short.BYTES, in, 0, count);
            if (narrow.dtype() == DType.BF16) {
                for (int i = 0; i < count; i++) {
                    out[i] = Float.intBitsToFloat(in[i] << Short.SIZE);
                }
            } else {
                for (int i = 0; i < count; i++) {
                    out[i] = Float.float16ToFloat(in[i]);
                }
            }
            MemorySegment.copy(out, 0, wide.bytes(), Tensor.F32_LE, from * Float.BYTES, count);
        });
        letGo(narrow);
        return wide;
    }

    /** Whether any product now reads its weight as stored instead of a transposed copy. */
    private static boolean readWhereTheyLie(GraphEdit edit, Set<String> fed) {
        boolean any = false;
        for (Node n : edit.nodes()) {
            boolean turns = n.is("Transpose")
                    && fed.contains(n.input(0))
                    && n.intsAttribute("perm").map(List.of(1L, 0L)::equals).orElse(false)
                    && !edit.isOutput(n.output());
            if (turns && edit.consumers(n.output()).stream().allMatch(c -> multipliesWith(c, n.output()))) {
                for (Node product : edit.consumers(n.output())) {
                    edit.replace(
                            product,
                            Node.of(
                                    product.name(),
                                    "FusedMatMul",
                                    MICROSOFT,
                                    List.of(product.input(0), n.input(0)),
                                    product.outputs(),
                                    Attribute.of("transB", 1)));
                }
                any = true;
            }
        }
        return any;
    }

    private static boolean multipliesWith(Node n, String weight) {
        return n.is("MatMul") && n.input(1).equals(weight) && !n.input(0).equals(weight);
    }

    /** The graph with weights as inputs. */
    GraphModel model() {
        return model;
    }

    /** The weights by input. */
    Map<String, Tensor> tensors() {
        return tensors;
    }

    /** Releases the pages of a mapped tensor; later reads load them from the file again. */
    private static void letGo(Tensor t) {
        if (t.bytes().isMapped() && t.bytes().byteSize() >= UNLOAD_BYTES) {
            t.bytes().unload();
        }
    }

    /** Frees the copies. */
    @Override
    public void close() {
        arena.close();
    }
}
