package dev.octet.converter.runtime;

import ai.onnxruntime.NodeInfo;
import ai.onnxruntime.OnnxJavaType;
import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtLoggingLevel;
import ai.onnxruntime.OrtSession;
import ai.onnxruntime.TensorInfo;
import dev.octet.converter.data.Batch;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.ref.Reference;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.Set;

/** A model loaded by ONNX Runtime on the CPU; {@link OnnxRuntime} loads them. Several threads may run batches at once. */
public final class OnnxRuntimeSession implements AutoCloseable {
    private final OrtEnvironment environment;
    private final OrtSession session;
    private final Path path;
    /** Fed to every run. */
    private final Map<String, OnnxTensor> weights = new LinkedHashMap<>();

    private OnnxRuntimeSession(OrtEnvironment environment, OrtSession session, Path path) {
        this.environment = environment;
        this.session = session;
        this.path = path;
    }

    /**
     * Loads a model.
     *
     * @throws UnavailableException when ONNX Runtime has no native library for this platform
     * @throws UnsupportedModelException when ONNX Runtime refuses the model; the message is its own
     * @throws IOException when the file is not there
     */
    static OnnxRuntimeSession open(Path model, SessionSettings settings) throws IOException {
        return open(model, settings, OrtSession.SessionOptions.OptLevel.ALL_OPT);
    }

    /**
     * Loads a model whose weights are inputs. ONNX Runtime uses their memory without a copy and computes the nodes as written, without
     * fusions: these depend on the surrounding nodes, so that pieces of a model would give other bits than the whole.
     *
     * @param weights by input; they must live until {@link #close()}
     * @throws UnsupportedModelException when ONNX Runtime refuses the model
     * @throws IOException when the file is not there
     */
    static OnnxRuntimeSession open(Path model, Map<String, Tensor> weights, SessionSettings settings)
            throws IOException {
        OnnxRuntimeSession session = open(model, settings, OrtSession.SessionOptions.OptLevel.NO_OPT);
        try {
            for (Map.Entry<String, Tensor> w : weights.entrySet()) {
                session.weights.put(w.getKey(), session.onnxTensor(w.getValue()));
            }
            return session;
        } catch (OrtException e) {
            session.close();
            throw new IllegalStateException("ONNX Runtime does not take a tensor: " + oneLine(e), e);
        }
    }

    private static OnnxRuntimeSession open(
            Path model, SessionSettings settings, OrtSession.SessionOptions.OptLevel optimisation) throws IOException {
        if (!Files.isRegularFile(model)) {
            throw new NoSuchFileException(model.toString());
        }
        OrtEnvironment environment = OnnxRuntimeLibrary.environment();
        try (OrtSession.SessionOptions options = new OrtSession.SessionOptions()) {
            options.setSessionLogLevel(OrtLoggingLevel.ORT_LOGGING_LEVEL_FATAL); // failures are thrown as exceptions
            options.setIntraOpNumThreads(settings.threads());
            options.setInterOpNumThreads(1);
            options.setOptimizationLevel(optimisation);
            if (!settings.quantisedKernels()) {
                options.addConfigEntry("session.disable_quant_qdq", "1");
                options.addConfigEntry("optimization.disable_specified_optimizers", "ReluQuantRewrite");
            }
            return new OnnxRuntimeSession(environment, environment.createSession(model.toString(), options), model);
        } catch (OrtException e) {
            throw new UnsupportedModelException(
                    "ONNX Runtime " + environment.getVersion() + " cannot load the model: " + oneLine(e),
                    model.toString(),
                    "check the model with `octet inspect`, or load it with the ONNX Runtime that it was made for",
                    e);
        }
    }

    /** The version of the native library. */
    static String version() {
        return OnnxRuntimeLibrary.environment().getVersion();
    }

    static String oneLine(OrtException e) {
        String message = e.getMessage();
        return message == null ? e.getCode().toString() : message.replaceAll("\\s+", " ");
    }

    /** Names of the inputs, in the model's order. */
    public Set<String> inputs() {
        return new LinkedHashSet<>(session.getInputNames());
    }

    /** Names of the outputs, in the model's order. */
    public Set<String> outputs() {
        return new LinkedHashSet<>(session.getOutputNames());
    }

    /** The fixed batch size of the model, if the first dimension of its first input is a number. */
    public OptionalInt fixedBatch() {
        try {
            for (NodeInfo input : session.getInputInfo().values()) {
                if (input.getInfo() instanceof TensorInfo t && t.getShape().length > 0 && t.getShape()[0] > 0) {
                    return OptionalInt.of(Math.toIntExact(t.getShape()[0]));
                }
            }
            return OptionalInt.empty();
        } catch (OrtException e) {
            throw new IllegalStateException("ONNX Runtime cannot describe a model it has loaded: " + oneLine(e), e);
        }
    }

    /** Runs a batch for all outputs. */
    public Outputs run(Batch batch) {
        return run(batch, outputs());
    }

    /**
     * Runs a batch for some outputs.
     *
     * @throws InvalidDataException when the batch does not fit the model, or the model fails on it
     */
    public Outputs run(Batch batch, Set<String> wanted) {
        return run(batch, wanted, Map.of());
    }

    /**
     * Runs a batch for all outputs, with inputs that another run gave: their memory is used without a copy.
     *
     * @param before of this session, not closed
     * @param carried outputs of {@code before}, by input
     * @throws InvalidDataException when the batch does not fit the model, or the model fails on it
     */
    public Outputs run(Batch batch, Outputs before, Map<String, String> carried) {
        Map<String, OnnxTensor> inputs = new LinkedHashMap<>();
        carried.forEach((input, output) -> inputs.put(input, before.tensor(output)));
        return run(batch, outputs(), inputs);
    }

    private Outputs run(Batch batch, Set<String> wanted, Map<String, OnnxTensor> carried) {
        Map<String, OnnxTensor> fed = new LinkedHashMap<>();
        try {
            Map<String, OnnxTensor> all = new LinkedHashMap<>(weights);
            all.putAll(carried);
            for (String name : session.getInputNames()) {
                if (all.containsKey(name)) {
                    continue;
                }
                Tensor tensor = batch.tensors().get(name);
                if (tensor == null) {
                    throw new InvalidDataException(
                            "the data have no array for the model's input '" + name + "'",
                            "arrays of the data: " + batch.tensors().keySet(),
                            "give data with an array for every input");
                }
                fed.put(name, onnxTensor(tensor));
            }
            all.putAll(fed);
            return new Outputs(session.run(all, wanted), batch);
        } catch (OrtException e) {
            throw new InvalidDataException(
                    "the model fails on the data: " + oneLine(e),
                    path + ", samples " + batch.first() + " to " + (batch.first() + batch.size() - 1) + ": "
                            + batch.tensors().values().stream()
                                    .map(t -> t.spec().toString())
                                    .toList(),
                    "check that the samples have the shapes and value ranges that the model was made for",
                    e);
        } finally {
            fed.values().forEach(OnnxTensor::close);
        }
    }

    /** A tensor over the same memory: batches lie outside the heap. */
    private OnnxTensor onnxTensor(Tensor tensor) throws OrtException {
        return OnnxTensor.createTensor(
                environment,
                tensor.bytes().asByteBuffer().order(ByteOrder.nativeOrder()),
                tensor.shape().toArray(),
                javaType(tensor));
    }

    private static OnnxJavaType javaType(Tensor tensor) {
        DType dtype = tensor.dtype();
        return switch (dtype) {
            case F32 -> OnnxJavaType.FLOAT;
            case F64 -> OnnxJavaType.DOUBLE;
            case F16 -> OnnxJavaType.FLOAT16;
            case BF16 -> OnnxJavaType.BFLOAT16;
            case I8 -> OnnxJavaType.INT8;
            case I16 -> OnnxJavaType.INT16;
            case I32 -> OnnxJavaType.INT32;
            case I64 -> OnnxJavaType.INT64;
            case U8 -> OnnxJavaType.UINT8;
            case BOOL -> OnnxJavaType.BOOL;
            case F4_E2M1,
                    F6_E2M3,
                    F6_E3M2,
                    U2,
                    I2,
                    U4,
                    I4,
                    F8_E5M2,
                    F8_E4M3FN,
                    F8_E8M0,
                    F8_E4M3FNUZ,
                    F8_E5M2FNUZ,
                    U16,
                    U32,
                    C64,
                    U64,
                    C128,
                    STRING ->
                throw new InvalidDataException(
                        "ONNX Runtime's Java API takes no inputs of type " + dtype,
                        "input '" + tensor.name() + "'",
                        "use a model that takes F32, F16 or integers");
        };
    }

    @Override
    public void close() {
        weights.values().forEach(OnnxTensor::close);
        try {
            session.close();
        } catch (OrtException e) {
            throw new IllegalStateException("ONNX Runtime cannot free a session: " + oneLine(e), e);
        }
    }

    /**
     * Outputs of one run, in native memory until read. Different outputs may be read on different threads. An output that is also an input
     * lies in the memory of the batch.
     */
    public static final class Outputs implements AutoCloseable {
        private final Batch batch;
        private final OrtSession.Result result;
        private final Map<String, OnnxTensor> tensors = new LinkedHashMap<>();
        private final List<String> others;

        private Outputs(OrtSession.Result result, Batch batch) {
            this.result = result;
            this.batch = batch;
            List<String> skipped = new ArrayList<>();
            result.forEach(e -> {
                if (e.getValue() instanceof OnnxTensor t && OutputReader.isNumeric(t)) {
                    tensors.put(e.getKey(), t);
                } else {
                    skipped.add(e.getKey());
                }
            });
            others = List.copyOf(skipped);
        }

        /** Outputs that are numeric tensors, in the order of the model. */
        public Set<String> names() {
            return tensors.keySet();
        }

        /** Other outputs: text, sequences, maps. */
        public List<String> notNumeric() {
            return others;
        }

        /**
         * An output of any numeric type, converted to F32 on the heap.
         *
         * @throws IllegalArgumentException when there is no such output
         */
        public Tensor read(String name) {
            return OutputReader.toF32(name, tensor(name));
        }

        /**
         * An output in its own type, on the heap.
         *
         * @throws IllegalArgumentException when there is no such output
         */
        Tensor readAsIs(String name) {
            return OutputReader.asIs(name, tensor(name));
        }

        private OnnxTensor tensor(String name) {
            OnnxTensor t = tensors.get(name);
            if (t == null) {
                throw new IllegalArgumentException("no numeric output '" + name + "'");
            }
            return t;
        }

        @Override
        public void close() {
            try {
                result.close();
            } finally {
                Reference.reachabilityFence(batch);
            }
        }
    }
}
