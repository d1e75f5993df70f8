package dev.octet.trainer.check;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertFalse;

import dev.octet.converter.Converter;
import dev.octet.converter.TrainingGraph;
import dev.octet.converter.pass.PassLog;
import dev.octet.formats.ModelFile;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.autodiff.Programs;
import dev.octet.trainer.autodiff.Ties;
import dev.octet.trainer.config.LossConfig;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.loss.LossGraph;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/** An export of {@code testdata/models/tiny-onnx} with what torch computes for the checkpoint it was exported from. */
final class TinyGoldens implements AutoCloseable {
    private static final Path MODELS = Path.of(System.getProperty("octet.testdata"), "models");

    private final ModelFile model;
    private final ModelFile file;
    private final Converter converter;
    private final GraphModel graph;
    private final boolean isCausal;
    private final boolean isPadded;

    private TinyGoldens(String architecture, ModelFile model, ModelFile file, Converter converter) {
        this.isCausal = Set.of("gpt2", "llama").contains(architecture);
        this.isPadded = architecture.equals("bert");
        this.model = model;
        this.file = file;
        this.converter = converter;
        GraphModel tied = Ties.restore(
                converter.canonical(), Ties.find(converter.canonical().graph()));
        Map<String, Shape> shapes = new HashMap<>();
        file.model().tensors().forEach((name, t) -> {
            if (name.startsWith("in.")) {
                shapes.put(name.substring("in.".length()), t.shape());
            }
        });
        graph = TrainingGraph.of(tied, Programs.sizes(tied.graph(), shapes), new PassLog());
    }

    /** Every export that is there. */
    static List<String> names() throws IOException {
        try (Stream<Path> files = Files.list(MODELS.resolve("tiny-onnx"))) {
            List<String> names = files.map(f -> f.getFileName().toString().replace(".onnx", ""))
                    .sorted()
                    .toList();
            assertFalse(names.isEmpty());
            return names;
        }
    }

    static TinyGoldens open(String name) throws IOException {
        String architecture = name.substring(0, name.indexOf('_'));
        ModelFile model = ModelFile.open(MODELS.resolve("tiny-onnx/" + name + ".onnx"));
        ModelFile file = ModelFile.open(MODELS.resolve("tiny-hf/" + architecture + "/golden.safetensors"));
        return new TinyGoldens(architecture, model, file, Converter.of(model.model()));
    }

    /** The graph at the golden sizes, without a loss, its ties restored. */
    GraphModel graph() {
        return graph;
    }

    /** The graph with the loss of its architecture behind the logits. */
    LossGraph withLoss() {
        GraphEdit edit = GraphEdit.of(graph.graph());
        edit.nodes().stream()
                .filter(n -> n.is("Gather") && n.input(1).equals("input_ids") && isPadded)
                // what torch's padding_idx=0 does and exports do not say
                .forEach(n -> edit.replace(n, n.withMetadata(Map.of(Node.PADDING_INDEX, "0"))));
        LossConfig.Type type = isCausal ? LossConfig.Type.CAUSAL_LM : LossConfig.Type.CROSS_ENTROPY;
        LossConfig config = new LossConfig(type, Optional.empty(), "labels", -100, Optional.empty());
        Tensor labels = tensor("in.labels");
        return LossGraph.of(graph.withGraph(edit.build()), config, new OperandType(labels.dtype(), labels.shape()));
    }

    Tensor tensor(String name) {
        return requireNonNull(file.model().tensors().get(name), name);
    }

    Golden golden() {
        return Golden.of(file.model().tensors(), "golden.safetensors");
    }

    /** The graph's name of each gradient that has another one: by the module that torch exported, and where a tied weight got another owner. */
    Map<String, String> renamed() {
        Map<String, String> renamed = new TreeMap<>();
        golden().gradients().keySet().forEach(name -> renamed.put(name, inGraph(name)));
        return renamed;
    }

    private String inGraph(String name) {
        List<String> owners = List.of(name, module(name), tied(name), expanded(name));
        return owners.stream()
                .filter(o -> graph.graph().initializers().containsKey("m." + o))
                .findFirst()
                .map(o -> "m." + o)
                .orElse(expanded(name));
    }

    private static String tied(String name) {
        return switch (name) {
            case "transformer.wte.weight" -> "lm_head.weight";
            case "bert.embeddings.word_embeddings.weight" -> "cls.predictions.decoder.weight";
            case "cls.predictions.bias" -> "cls.predictions.decoder.bias";
            default -> name;
        };
    }

    /** The class token, which torch's newer exporter writes once for each image of the batch. */
    private static String expanded(String name) {
        return name.equals("vit.embeddings.cls_token") ? "expand" : name;
    }

    /** transformers 5 calls modules of ViT otherwise than the tensors of its files. */
    private static String module(String name) {
        return Pattern.compile("attention\\.attention\\.(query|key|value)")
                .matcher(name.replace("vit.encoder.layer.", "vit.layers."))
                .replaceAll(m -> "attention." + m.group(1).charAt(0) + "_proj")
                .replace("attention.output.dense", "attention.o_proj")
                .replace("intermediate.dense", "mlp.fc1")
                .replace("output.dense", "mlp.fc2");
    }

    @Override
    public void close() {
        converter.close();
        file.close();
        model.close();
    }
}
