package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.hf.TextImageArchitecture.Family;
import dev.octet.converter.hf.TextImageArchitecture.Part;
import dev.octet.converter.rule.CanonicalOps;
import dev.octet.formats.OctetVersion;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.error.Nearest;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.lang.foreign.Arena;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeSet;
import java.util.stream.Stream;

/** Turns {@code config.json} and the tensors of a checkpoint into a graph. */
public final class HfImporter {
    /** All architectures. One more is a line here, see {@link Architecture}. */
    static final List<Architecture> ARCHITECTURES = Stream.concat(
                    Stream.of(
                            new BertArchitecture(),
                            new RobertaArchitecture("roberta", "Roberta"),
                            new RobertaArchitecture("xlm-roberta", "XLMRoberta"),
                            new DistilBertArchitecture(),
                            new ModernBertArchitecture(),
                            new DebertaV2Architecture(),
                            T5Architecture.T5,
                            T5Architecture.SWITCH,
                            new WhisperArchitecture(),
                            new VitArchitecture(),
                            new TextImageArchitecture("clip", Family.CLIP, Part.BOTH),
                            new TextImageArchitecture("clip_text_model", Family.CLIP, Part.TEXT),
                            new TextImageArchitecture("clip_vision_model", Family.CLIP, Part.IMAGE),
                            new TextImageArchitecture("siglip", Family.SIGLIP, Part.BOTH),
                            new TextImageArchitecture("siglip_text_model", Family.SIGLIP, Part.TEXT),
                            new TextImageArchitecture("siglip_vision_model", Family.SIGLIP, Part.IMAGE),
                            new Gpt2Architecture()),
                    Decoders.ALL.stream())
            .toList();

    /** The first with Attention, RotaryEmbedding and RMSNormalization. */
    private static final long OPSET = 23;
    /** The IR version of that opset (onnx/helper.py, VERSION_TABLE). */
    private static final long IR = 11;

    /** Key in a graph's metadata under which the text of {@code config.json} is kept. */
    public static final String CONFIG_KEY = "octet.huggingface.config";

    /** What architectures call the output of a class without a head. */
    static final String BARE_OUTPUT = "last_hidden_state";

    private HfImporter() {}

    /**
     * The configuration that a graph was made of, as {@link #of} leaves it in the metadata; empty where there is none.
     *
     * @throws dev.octet.formats.error.MalformedModelException when it is not a JSON object
     */
    public static Optional<ObjectNode> configOf(GraphModel model) {
        String text = model.metadata().get(CONFIG_KEY);
        return text == null ? Optional.empty() : Optional.of(ModelConfig.parse(text, "metadata " + CONFIG_KEY));
    }

    /**
     * A checkpoint as a graph.
     *
     * @param model canonical, opset 23; symbols {@code batch} and {@code sequence}; constants are the tensors under their own names
     * @param modelType {@code model_type}, as {@code llama}
     * @param modelClass class of transformers, as {@code LlamaForCausalLM}
     * @param unread tensors of the file that the model does not compute with, such as buffers of old versions
     */
    public record Imported(GraphModel model, String modelType, String modelClass, List<String> unread) {
        public Imported {
            unread = List.copyOf(unread);
        }
    }

    /** The name of the Attention node of an attention layer: {@code /model/layers.0/self_attn/Attention}. */
    public static String attentionNode(String attention) {
        return GraphDraft.path(attention) + AttentionHeads.NODE;
    }

    /** Classes of transformers that have a graph here, by the alphabet. */
    public static List<String> classes() {
        return List.copyOf(new TreeSet<>(
                ARCHITECTURES.stream().flatMap(a -> a.classes().stream()).toList()));
    }

    /** Values of {@code model_type} that have a graph here, by the alphabet. */
    public static List<String> modelTypes() {
        return ARCHITECTURES.stream().map(Architecture::modelType).sorted().toList();
    }

    /**
     * Makes the graph. No element of a weight is read, but for a few where a file says the same twice.
     *
     * @param config {@code config.json}
     * @param tensors F32, BF16 or F16, by name
     * @param where the checkpoint, for messages
     * @throws UnsupportedModelException for an architecture, activation or rope type that is not known
     * @throws dev.octet.formats.error.MalformedModelException when a key is missing or absurd, or tensors are missing, extra or of another
     *     shape than the configuration asks for: all are named
     */
    public static Imported of(ObjectNode config, Map<String, Tensor> tensors, String where) {
        Map<String, Initializer> constants = new LinkedHashMap<>();
        tensors.forEach((name, t) -> constants.put(name, Initializer.of(t)));
        return ofConstants(config, constants, Use.SEQUENCES, where);
    }

    /** What a graph is for. */
    public enum Use {
        /** Whole sequences at once: training, calibration, evaluation. */
        SEQUENCES,
        /** The next token after those of a cache: a graph with a {@link KeyValueCache}, whose logits are those of the last token. */
        GENERATION
    }

    /**
     * Makes the graph of constants that may be coded; otherwise as {@link #of}.
     *
     * @param constants dense ones of F32, BF16 or F16, and coded ones, under their names
     * @throws UnsupportedModelException also for a class that does not predict the next token, where the graph is for {@link Use#GENERATION}
     */
    public static Imported ofConstants(ObjectNode config, Map<String, Initializer> constants, Use use, String where) {
        HfConfig hf = new HfConfig(config, where);
        Architecture architecture = architecture(hf).orElseThrow(() -> unknown(hf, constants));
        String modelClass = modelClass(hf, architecture);
        if (use == Use.GENERATION && !isCausal(modelClass)) {
            throw hf.unsupported(
                    "architectures",
                    modelClass,
                    String.join(
                            ", ",
                            classes().stream().filter(HfImporter::isCausal).toList()));
        }
        Arena arena = Arena.ofAuto(); // small constants live as long as the graph
        CheckpointParameters parameters = new CheckpointParameters(constants, architecture.prefix(), where, arena);
        GraphDraft draft = new GraphDraft(parameters, use, arena);
        architecture.build(hf, modelClass, draft);
        List<String> unread = parameters.check(architecture.ignored());
        Graph graph = draft.build(modelClass);
        Map<String, String> metadata = new LinkedHashMap<>(draft.metadata());
        metadata.put(CONFIG_KEY, config.toString());
        GraphModel model = GraphModel.of(graph, IR, OPSET)
                .withOpset(Node.OCTET_DOMAIN, CanonicalOps.VERSION, IR)
                .withMetadata(metadata)
                .withProducer(new GraphModel.Producer("octet", OctetVersion.current(), "", 0, ""));
        return new Imported(model, architecture.modelType(), modelClass, unread);
    }

    /**
     * The graph of a configuration before there are tensors.
     *
     * @param optional whether a bare model has the parameters that each add an output (the pooler)
     * @param where the configuration, for messages
     * @throws UnsupportedModelException as {@link #of}
     * @throws dev.octet.formats.error.MalformedModelException when a key is missing or absurd
     */
    public static Blueprint blueprint(ObjectNode config, boolean optional, String where) {
        HfConfig hf = new HfConfig(config, where);
        Architecture architecture = architecture(hf).orElseThrow(() -> unknown(hf, Map.of()));
        String modelClass = modelClass(hf, architecture);
        Arena arena = Arena.ofAuto();
        Map<String, Initializer> present = new LinkedHashMap<>();
        if (optional) {
            architecture
                    .optional()
                    .forEach(name -> present.put(
                            name,
                            Initializer.of(Tensor.allocate(arena, new TensorSpec(name, DType.F32, Shape.of(0))))));
        }
        CheckpointParameters parameters = new CheckpointParameters(present, architecture.prefix(), where, arena);
        GraphDraft draft = new GraphDraft(parameters, arena);
        architecture.build(hf, modelClass, draft);
        Graph graph = draft.build(modelClass);
        boolean bare = graph.outputs().getFirst().name().equals(BARE_OUTPUT);
        return new Blueprint(
                graph,
                parameters.asked(),
                parameters.wholes(),
                architecture.modelType(),
                modelClass,
                bare && !architecture.keepsPrefix(modelClass) ? architecture.prefix() : "",
                architecture.unseen(),
                bare && !optional ? architecture.optional() : List.of());
    }

    /** Configurations under which a known architecture might compute what a graph of these traits does, the likeliest first. */
    public static List<ObjectNode> candidates(GraphTraits traits) {
        return ARCHITECTURES.stream()
                .flatMap(a -> a.candidates(traits).stream())
                .toList();
    }

    /** Whether a class predicts the next token. */
    private static boolean isCausal(String modelClass) {
        return modelClass.endsWith("ForCausalLM") || modelClass.endsWith("LMHeadModel");
    }

    private static Optional<Architecture> architecture(HfConfig config) {
        String type = config.text("", "model_type");
        return ARCHITECTURES.stream().filter(a -> a.modelType().equals(type)).findFirst();
    }

    private static UnsupportedModelException unknown(HfConfig config, Map<String, Initializer> constants) {
        String type = config.text("", "model_type");
        return new UnsupportedModelException(
                type.isEmpty()
                        ? "config.json has no model_type"
                        : "there is no graph for model_type '" + type + "'"
                                + NearestArchitecture.of(config, constants)
                                        .map(NearestArchitecture::toString)
                                        .or(() -> nearestName(type))
                                        .map(n -> "; " + n)
                                        .orElse(""),
                config.where(),
                "known are " + String.join(", ", modelTypes())
                        + "; give an .onnx export, or add the architecture (docs/huggingface.md says where)");
    }

    private static Optional<String> nearestName(String type) {
        return Nearest.names(type, modelTypes()).stream().findFirst().map(n -> "the nearest in name is '" + n + "'");
    }

    private static String modelClass(HfConfig config, Architecture architecture) {
        List<String> named = config.texts("architectures");
        if (named.isEmpty()) {
            return architecture.classes().getFirst();
        }
        return named.stream()
                .filter(architecture.classes()::contains)
                .findFirst()
                .orElseThrow(() -> config.unsupported(
                        "architectures", String.join(", ", named), String.join(", ", architecture.classes())));
    }
}
