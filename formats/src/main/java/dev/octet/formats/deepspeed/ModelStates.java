package dev.octet.formats.deepspeed;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.OpenFiles;
import dev.octet.formats.pickle.PickleValue;
import dev.octet.formats.pickle.PickleValue.Dict;
import dev.octet.formats.pickle.PickleValue.Int;
import dev.octet.formats.pickle.PickleValue.Item;
import dev.octet.formats.pickle.PickleValue.Sequence;
import dev.octet.formats.pickle.PickleValue.Text;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.torch.FilePart;
import dev.octet.formats.torch.StateDict;
import dev.octet.formats.torch.TorchFile;
import dev.octet.formats.torch.TorchTensor;
import java.io.IOException;
import java.math.BigInteger;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * One rank's {@code *_model_states.pt}. Source: deepspeed/runtime/engine.py, deepspeed/utils/zero_to_fp32.py.
 *
 * @param file what was read
 * @param root its dict
 */
record ModelStates(TorchFile file, Dict root) {
    static ModelStates read(OpenFiles files, Path path) throws IOException {
        TorchFile file = TorchFile.open(FilePart.of(files, path));
        if (!(file.root() instanceof Dict root)) {
            throw broken(path, "the file holds no states of a model");
        }
        for (String key : List.of("autoep_layers", "ds_autoep_layers")) {
            if (root.get(key) instanceof Sequence s && !s.items().isEmpty()) {
                throw new UnsupportedModelException(
                        "experts are shared out among the ranks",
                        path.toString(),
                        "make it universal with ds_to_universal.py");
            }
        }
        return new ModelStates(file, root);
    }

    static MalformedModelException broken(Path path, String what) {
        return new MalformedModelException(what, path.toString(), "copy the folder again, or save it again");
    }

    /** Shapes of the parameters that are trained, group after group; empty where the file has none. */
    List<Map<String, Shape>> parameterShapes() {
        PickleValue shapes = root.get("param_shapes");
        List<Map<String, Shape>> groups = new ArrayList<>();
        if (shapes instanceof Dict dict) {
            groups.add(shapes(dict));
        } else if (shapes instanceof Sequence sequence) {
            for (PickleValue group : sequence.items()) {
                if (!(group instanceof Dict dict)) {
                    throw broken(file.file(), "param_shapes has a group that is no dict");
                }
                groups.add(shapes(dict));
            }
        }
        return groups;
    }

    /** Shapes of the parameters that are not trained. */
    Map<String, Shape> frozenShapes() {
        return root.get("frozen_param_shapes") instanceof Dict dict ? shapes(dict) : Map.of();
    }

    private Map<String, Shape> shapes(Dict dict) {
        Map<String, Shape> shapes = new LinkedHashMap<>();
        for (Item item : dict.items()) {
            if (!(item.key() instanceof Text(String name))) {
                throw broken(file.file(), "a parameter's name is no text");
            }
            shapes.put(name, shape(name, item.value()));
        }
        return shapes;
    }

    private Shape shape(String name, PickleValue value) {
        if (value instanceof Sequence sequence && sequence.items().size() <= 64) {
            long[] dims = new long[sequence.items().size()];
            boolean numbers = true;
            for (int k = 0; k < dims.length; k++) {
                if (sequence.items().get(k) instanceof Int(BigInteger d) && d.bitLength() < Long.SIZE) {
                    dims[k] = d.longValue();
                } else {
                    numbers = false;
                }
            }
            try {
                if (numbers) {
                    return Shape.of(dims);
                }
            } catch (ArithmeticException | IllegalArgumentException e) {
                throw new MalformedModelException(
                        "parameter '" + name + "' has an impossible shape",
                        file.file().toString(),
                        "copy the folder again, or save it again",
                        e);
            }
        }
        throw broken(file.file(), "parameter '" + name + "' has no shape");
    }

    /** The rank's part of a parameter that is not trained. */
    TorchTensor frozenFragment(String name) throws IOException {
        PickleValue value = root.get("frozen_param_fragments") instanceof Dict dict ? dict.get(name) : null;
        return tensor(value, name);
    }

    /** Tensors of the model that are no parameters. */
    Map<String, TorchTensor> buffers() throws IOException {
        Map<String, TorchTensor> buffers = new LinkedHashMap<>();
        Set<String> names = new HashSet<>();
        if (root.get("buffer_names") instanceof Sequence sequence) {
            sequence.items().forEach(i -> {
                if (i instanceof Text(String name)) {
                    names.add(name);
                }
            });
        }
        if (root.get("module") instanceof Dict module) {
            for (Item item : module.items()) {
                if (item.key() instanceof Text(String name)
                        && names.contains(name)
                        && TorchFile.isTensor(item.value())) {
                    buffers.put(name, tensor(item.value(), name));
                }
            }
        }
        return buffers;
    }

    /** States of FP8 training among what the module saved, by module. */
    Map<String, PickleValue> extraStates() {
        return root.get("module") instanceof Dict module
                ? StateDict.of(
                                StateDict.tensors(module, file.file().toString()),
                                file.file().toString())
                        .extraStates()
                : Map.of();
    }

    /** Names of parameters that are another one under a second name, by the first. */
    Map<String, String> shared() {
        Map<String, String> shared = new LinkedHashMap<>();
        PickleValue pairs = root.get("shared_params");
        if (pairs instanceof Dict dict) {
            dict.items().forEach(i -> addPair(i.key(), i.value(), shared));
        } else if (pairs instanceof Sequence sequence) {
            for (PickleValue pair : sequence.items()) {
                if (pair instanceof Sequence p && p.items().size() == 2) {
                    addPair(p.items().get(0), p.items().get(1), shared);
                }
            }
        }
        return shared;
    }

    private static void addPair(PickleValue name, PickleValue other, Map<String, String> shared) {
        if (name instanceof Text(String n) && other instanceof Text(String o)) {
            shared.put(n, o);
        }
    }

    private TorchTensor tensor(@Nullable PickleValue value, String name) throws IOException {
        if (value == null || !TorchFile.isTensor(value)) {
            throw broken(file.file(), "there is no tensor of '" + name + "'");
        }
        return file.tensor(value, name);
    }
}
