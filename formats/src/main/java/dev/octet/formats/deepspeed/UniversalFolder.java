package dev.octet.formats.deepspeed;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.file.OpenFiles;
import dev.octet.formats.model.PiecedShards.Located;
import dev.octet.formats.pickle.PickleValue;
import dev.octet.formats.pickle.PickleValue.Dict;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.formats.torch.FilePart;
import dev.octet.formats.torch.TorchFile;
import dev.octet.formats.torch.TorchTensor;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** A step's folder of DeepSpeed's universal form: {@code zero/PARAMETER/fp32.pt}. Source: deepspeed/checkpoint/{ds_to_universal,universal_checkpoint}.py. */
final class UniversalFolder {
    /** Where the parameters lie. */
    static final String PARAMETERS = "zero";

    /** A parameter's weights. */
    static final String WEIGHTS = "fp32.pt";

    /** The key of a parameter's tensor in its file. */
    static final String PARAMETER = "param";

    /** States of the model that are shared by all ranks, with the names that universal checkpoints keep them under. */
    static final List<String> MODEL_STATES =
            List.of("mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_model_states.pt");

    private UniversalFolder() {}

    /** Whether a parameter's folder can be called so. */
    static boolean isFolderName(String name) {
        return !name.isEmpty()
                && name.length() <= 255
                && !name.equals(".")
                && !name.equals("..")
                && name.chars().noneMatch(c -> c < ' ' || "/\\:*?\"<>|".indexOf(c) >= 0);
    }

    static boolean isOne(Path folder) throws IOException {
        Path parameters = folder.resolve(PARAMETERS);
        if (!Files.isDirectory(parameters)) {
            return false;
        }
        try (Stream<Path> all = Files.list(parameters)) {
            return all.anyMatch(f -> Files.isRegularFile(f.resolve(WEIGHTS)));
        }
    }

    static Map<String, Located> weights(Path folder, OpenFiles files) throws IOException {
        Map<String, Located> weights = new LinkedHashMap<>();
        Map<String, Shape> shapes = new HashMap<>();
        Map<String, String> shared = new LinkedHashMap<>();
        for (String name : MODEL_STATES) {
            if (Files.isRegularFile(folder.resolve(name))) {
                ModelStates states = ModelStates.read(files, folder.resolve(name));
                states.parameterShapes().forEach(shapes::putAll);
                states.buffers().forEach((n, t) -> weights.put(n, new Located(t.spec(n), t.pieces())));
                shared.putAll(states.shared());
                break;
            }
        }
        List<Path> parameters;
        try (Stream<Path> all = Files.list(folder.resolve(PARAMETERS))) {
            parameters = all.filter(Files::isDirectory).sorted().toList();
        }
        for (Path parameter : parameters) {
            String name = String.valueOf(parameter.getFileName());
            weights.put(name, weight(files, parameter.resolve(WEIGHTS), name, shapes));
        }
        for (String name : shapes.keySet()) {
            if (!weights.containsKey(name)) {
                throw new MalformedModelException(
                        "there is no " + WEIGHTS + " of parameter '" + name + "'",
                        folder.resolve(PARAMETERS).toString(),
                        "copy the folder again, or make it again with ds_to_universal.py");
            }
        }
        shared.forEach((name, other) -> {
            Located same = weights.get(other);
            if (same != null) {
                weights.putIfAbsent(name, new Located(same.spec().withName(name), same.pieces()));
            }
        });
        return weights;
    }

    /** Stage 3 leaves the tensor alone, as a vector; the others a dict with it. */
    private static Located weight(OpenFiles files, Path path, String name, Map<String, Shape> shapes)
            throws IOException {
        if (!Files.isRegularFile(path)) {
            throw ModelStates.broken(path, "there are no weights of parameter '" + name + "'");
        }
        TorchFile file = TorchFile.open(FilePart.of(files, path));
        PickleValue value = file.root() instanceof Dict dict ? dict.get(PARAMETER) : file.root();
        if (value == null || !TorchFile.isTensor(value)) {
            throw ModelStates.broken(path, "the file holds no weights of parameter '" + name + "'");
        }
        TorchTensor tensor = file.tensor(value, name);
        Shape shape = shapes.get(name);
        boolean flat =
                shape != null && tensor.shape().rank() == 1 && tensor.shape().elementCount() == shape.elementCount();
        return new Located(
                new TensorSpec(name, tensor.dtype(), flat && shape != null ? shape : tensor.shape()), tensor.pieces());
    }
}
