package dev.octet.formats.deepspeed;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.OpenFiles;
import dev.octet.formats.model.ExtraState;
import dev.octet.formats.model.PiecedShards.Located;
import dev.octet.formats.model.Pieces;
import dev.octet.formats.pickle.PickleValue;
import dev.octet.formats.pickle.PickleValue.Dict;
import dev.octet.formats.pickle.PickleValue.Instance;
import dev.octet.formats.pickle.PickleValue.Int;
import dev.octet.formats.pickle.PickleValue.Sequence;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.formats.torch.FilePart;
import dev.octet.formats.torch.TorchFile;
import dev.octet.formats.torch.TorchTensor;
import java.io.IOException;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * A step's folder of DeepSpeed: each rank's share of the optimizer's FP32 weights, put together. Source: deepspeed/utils/zero_to_fp32.py.
 *
 * <p>Stages 1 and 2: a group's parameters follow each other in one vector, which the ranks hold in equal parts. Stage 3: each parameter is padded to a multiple of
 * the ranks, and each rank's vector holds its part of each parameter.
 */
final class ZeroFolder {
    private static final Pattern OPTIMIZER =
            Pattern.compile("(?:bf16_|fp16_)?zero_pp_rank_(\\d{1,6})_mp_rank_(\\d{2,6})(?:_\\d+)?_optim_states\\.pt");
    private static final Pattern MODEL =
            Pattern.compile("(?:zero_pp_rank_(\\d{1,6})_)?mp_rank_(\\d{2,6})(?:_\\d+)?_model_states\\.pt");
    private static final Pattern EXPERT =
            Pattern.compile("(?:layer_\\d+_)?expert_\\d+_mp_rank_\\d+_(?:model|optim)_states\\.pt");

    private final Path folder;
    private final OpenFiles files;
    private final SortedMap<Integer, Path> optimizers = new TreeMap<>();
    private final SortedMap<Integer, Path> models = new TreeMap<>();

    private ZeroFolder(Path folder, OpenFiles files) {
        this.folder = folder;
        this.files = files;
    }

    /** Whether a folder has files of ZeRO. */
    static boolean isOne(Path folder) throws IOException {
        if (!Files.isDirectory(folder)) {
            return false;
        }
        try (Stream<Path> all = Files.list(folder)) {
            return all.anyMatch(
                    f -> MODEL.matcher(String.valueOf(f.getFileName())).matches());
        }
    }

    /**
     * All weights by name.
     *
     * @throws MalformedModelException when a rank's file is missing, which the message names, or shares do not add up
     * @throws UnsupportedModelException when tensors are cut among tensor-parallel ranks
     */
    static Map<String, Located> weights(Path folder, OpenFiles files) throws IOException {
        ZeroFolder zero = new ZeroFolder(folder, files);
        zero.find();
        return zero.weights();
    }

    /** States of FP8 training of the first rank: ranks that share the batch have the same scales and amaxes. */
    static List<ExtraState> extraStates(Path folder, OpenFiles files) throws IOException {
        Optional<Path> model;
        try (Stream<Path> all = Files.list(folder)) {
            model = all.filter(
                            f -> MODEL.matcher(String.valueOf(f.getFileName())).matches())
                    .min(Comparator.naturalOrder());
        }
        List<ExtraState> states = new ArrayList<>();
        if (model.isEmpty()) {
            return states;
        }
        ModelStates first = ModelStates.read(files, model.get());
        for (Map.Entry<String, PickleValue> e : first.extraStates().entrySet()) {
            byte[] bytes = first.file().bufferOrTensor(e.getValue(), e.getKey(), ExtraState.MAX_BYTES);
            states.add(new ExtraState(e.getKey(), bytes, first.file().file().toString()));
        }
        return states;
    }

    private void find() throws IOException {
        List<Path> all;
        try (Stream<Path> list = Files.list(folder)) {
            all = list.sorted().toList();
        }
        for (Path file : all) {
            String name = String.valueOf(file.getFileName());
            Matcher optimizer = OPTIMIZER.matcher(name);
            Matcher model = MODEL.matcher(name);
            if (EXPERT.matcher(name).matches()) {
                throw parallel("experts have files of their own (" + name + ")");
            }
            if (optimizer.matches()) {
                add(optimizers, optimizer.group(1), optimizer.group(2), file);
            } else if (model.matches()) {
                add(models, model.group(1) == null ? "0" : model.group(1), model.group(2), file);
            }
        }
    }

    private void add(SortedMap<Integer, Path> ranks, String rank, String tensorRank, Path file) {
        if (Integer.parseInt(tensorRank) != 0) {
            throw parallel("tensors are cut among tensor-parallel ranks (" + file.getFileName() + ")");
        }
        Path other = ranks.put(Integer.parseInt(rank), file);
        if (other != null) {
            throw ModelStates.broken(
                    folder, other.getFileName() + " and " + file.getFileName() + " are of the same rank");
        }
    }

    private UnsupportedModelException parallel(String what) {
        return new UnsupportedModelException(
                what + ", and only their program knows along which axis",
                folder.toString(),
                "make it universal with ds_to_universal.py, which Octet reads");
    }

    private Map<String, Located> weights() throws IOException {
        if (models.isEmpty()) {
            throw ModelStates.broken(folder, "there is no file of a rank's model states");
        }
        ModelStates first = ModelStates.read(files, models.firstEntry().getValue());
        Map<String, Located> weights = new LinkedHashMap<>();
        if (optimizers.isEmpty()) { // stage 0 keeps no shares
            wholeModule(first, weights);
            return weights;
        }
        for (Map.Entry<String, TorchTensor> e : first.buffers().entrySet()) {
            weights.put(e.getKey(), located(e.getKey(), e.getValue()));
        }
        List<List<TorchTensor>> groups = new ArrayList<>(); // of each rank
        long stage = readOptimizers(groups);
        if (stage == 3) {
            frozenInParts(first, weights);
            inParts(first.parameterShapes(), groups, weights);
        } else {
            for (Map.Entry<String, Shape> e : first.frozenShapes().entrySet()) {
                weights.put(e.getKey(), shaped(e.getKey(), e.getValue(), first.frozenFragment(e.getKey())));
            }
            inVectors(first.parameterShapes(), groups, weights);
        }
        first.shared().forEach((name, other) -> {
            Located same = weights.get(other);
            if (same != null) {
                weights.put(name, new Located(same.spec().withName(name), same.pieces()));
            }
        });
        return weights;
    }

    private static void wholeModule(ModelStates states, Map<String, Located> weights) throws IOException {
        if (!(states.root().get("module") instanceof Dict module)) {
            throw ModelStates.broken(states.file().file(), "the file has no module");
        }
        for (PickleValue.Item item : module.items()) {
            if (item.key() instanceof PickleValue.Text(String name) && TorchFile.isTensor(item.value())) {
                weights.put(name, located(name, states.file().tensor(item.value(), name)));
            }
        }
    }

    private static Located located(String name, TorchTensor tensor) {
        return new Located(tensor.spec(name), tensor.pieces());
    }

    private Located shaped(String name, Shape shape, TorchTensor tensor) {
        if (tensor.shape().elementCount() != shape.elementCount()) {
            throw ModelStates.broken(
                    folder, "parameter '" + name + "' of shape " + shape + " is stored as " + tensor.shape());
        }
        return new Located(new TensorSpec(name, tensor.dtype(), shape), tensor.pieces());
    }

    /** Reads each rank's vectors; the stage. */
    private long readOptimizers(List<List<TorchTensor>> groups) throws IOException {
        long stage = 0;
        for (int rank = 0; rank < optimizers.size(); rank++) {
            Path path = optimizers.get(rank);
            if (path == null) {
                throw missing(rank, optimizers.lastKey() + 1, "optimizer states");
            }
            TorchFile file = TorchFile.open(FilePart.of(files, path));
            if (!(file.root() instanceof Dict root) || !(root.get("optimizer_state_dict") instanceof Dict state)) {
                throw ModelStates.broken(path, "the file holds no optimizer states of ZeRO");
            }
            long own = number(state.get("zero_stage"));
            if (own < 1 || own > 3 || (rank > 0 && own != stage)) {
                throw ModelStates.broken(path, "the file is of no stage of ZeRO, or of another than the first");
            }
            stage = own;
            long ranks = ranks(state.get("partition_count"));
            if (ranks != optimizers.size()) {
                int gap = 0;
                while (optimizers.containsKey(gap)) {
                    gap++;
                }
                if (ranks > optimizers.size()) {
                    throw missing(gap, ranks, "optimizer states");
                }
                throw ModelStates.broken(
                        folder, "there are files of " + optimizers.size() + " ranks, of " + ranks + " that were saved");
            }
            groups.add(vectors(file, state.get(stage == 3 ? "fp32_flat_groups" : "single_partition_of_fp32_groups")));
        }
        return stage;
    }

    private MalformedModelException missing(int rank, long ranks, String what) {
        return new MalformedModelException(
                "the " + what + " of rank " + rank + " are missing, of " + ranks + " ranks",
                folder.toString(),
                "copy the file of that rank into the folder: its share of every weight is in it");
    }

    private static long number(@Nullable PickleValue value) {
        PickleValue number = value instanceof Instance i && !i.arguments().isEmpty() // ZeroStageEnum(3)
                ? i.arguments().getFirst()
                : value;
        return number instanceof Int(BigInteger n) && n.bitLength() < Integer.SIZE ? n.longValue() : -1;
    }

    /** Ranks that share a group's vector: a number, or one for each group. */
    private static long ranks(@Nullable PickleValue value) {
        if (value instanceof Sequence sequence) {
            return sequence.items().stream().mapToLong(ZeroFolder::number).max().orElse(-1);
        }
        return number(value);
    }

    private static List<TorchTensor> vectors(TorchFile file, @Nullable PickleValue value) throws IOException {
        if (!(value instanceof Sequence sequence) || sequence.items().isEmpty()) {
            throw ModelStates.broken(
                    file.file(), "the file has no FP32 weights; they are with the optimizer elsewhere");
        }
        List<TorchTensor> vectors = new ArrayList<>();
        for (PickleValue item : sequence.items()) {
            String name = "group " + vectors.size();
            if (!TorchFile.isTensor(item)) {
                throw ModelStates.broken(file.file(), name + " of the FP32 weights is no tensor");
            }
            TorchTensor vector = file.tensor(item, name);
            if (vector.shape().rank() != 1) {
                throw ModelStates.broken(file.file(), name + " of the FP32 weights is no vector");
            }
            vectors.add(vector);
        }
        return vectors;
    }

    private static long elements(List<TorchTensor> vectors) {
        return vectors.stream().mapToLong(v -> v.shape().elementCount()).sum();
    }

    /** Stages 1 and 2. */
    private void inVectors(
            List<Map<String, Shape>> shapes, List<List<TorchTensor>> ranks, Map<String, Located> weights) {
        int groups = ranks.getFirst().size();
        if (shapes.size() != groups || ranks.stream().anyMatch(r -> r.size() != groups)) {
            throw ModelStates.broken(
                    folder, "there are " + shapes.size() + " groups of parameters and " + groups + " of FP32 weights");
        }
        for (int g = 0; g < groups; g++) {
            int group = g;
            List<TorchTensor> parts = ranks.stream().map(r -> r.get(group)).toList();
            Pieces vector = joined(parts);
            DType dtype = parts.getFirst().dtype();
            long at = 0;
            for (Map.Entry<String, Shape> e : shapes.get(g).entrySet()) {
                long count = e.getValue().elementCount();
                require(at + count <= vector.dim(0), e.getKey(), vector.dim(0), at + count);
                weights.put(
                        e.getKey(),
                        new Located(new TensorSpec(e.getKey(), dtype, e.getValue()), vector.narrow(0, at, count)));
                at += count;
            }
            // the vector is padded to a multiple of twice the ranks, in ways that differ between versions
            long align = 2L * ranks.size();
            if (Math.ceilDiv(at, align) != Math.ceilDiv(vector.dim(0), align)) {
                throw ModelStates.broken(
                        folder,
                        "the parameters of group " + g + " have " + at + " elements, its FP32 weights "
                                + vector.dim(0));
            }
        }
    }

    private void require(boolean holds, String name, long there, long needed) {
        if (!holds) {
            throw ModelStates.broken(
                    folder,
                    "parameter '" + name + "' ends at element " + needed + " of FP32 weights that have " + there);
        }
    }

    private Pieces joined(List<TorchTensor> vectors) {
        try {
            return Pieces.joined(vectors.stream().map(TorchTensor::pieces).toList(), 0);
        } catch (IllegalArgumentException e) {
            throw new MalformedModelException(
                    "ranks keep their FP32 weights in different types",
                    folder.toString(),
                    "copy the folder again, or save it again",
                    e);
        }
    }

    /** Stage 3. */
    private void inParts(List<Map<String, Shape>> shapes, List<List<TorchTensor>> ranks, Map<String, Located> weights) {
        List<Pieces> own = ranks.stream().map(this::joined).toList();
        DType dtype = ranks.getFirst().getFirst().dtype();
        long at = 0;
        for (Map<String, Shape> group : shapes) {
            for (Map.Entry<String, Shape> e : group.entrySet()) {
                long count = e.getValue().elementCount();
                long part = Math.ceilDiv(count, (long) ranks.size());
                List<Pieces> parts = new ArrayList<>();
                for (Pieces vector : own) {
                    require(at + part <= vector.dim(0), e.getKey(), vector.dim(0), at + part);
                    parts.add(vector.narrow(0, at, part));
                }
                weights.put(
                        e.getKey(),
                        new Located(
                                new TensorSpec(e.getKey(), dtype, e.getValue()),
                                Pieces.joined(parts, 0).narrow(0, 0, count)));
                at += part;
            }
        }
        for (List<TorchTensor> rank : ranks) {
            if (elements(rank) != at) {
                throw ModelStates.broken(
                        folder,
                        "a rank's share of the parameters has " + at + " elements, its FP32 weights " + elements(rank));
            }
        }
    }

    private void frozenInParts(ModelStates first, Map<String, Located> weights) throws IOException {
        Map<String, Shape> shapes = first.frozenShapes();
        if (shapes.isEmpty()) {
            return;
        }
        List<ModelStates> ranks = new ArrayList<>();
        for (int rank = 0; rank < optimizers.size(); rank++) {
            Path path = models.get(rank);
            if (path == null) {
                throw missing(rank, optimizers.size(), "model states");
            }
            ranks.add(rank == 0 ? first : ModelStates.read(files, path));
        }
        for (Map.Entry<String, Shape> e : shapes.entrySet()) {
            List<TorchTensor> parts = new ArrayList<>();
            for (ModelStates rank : ranks) {
                parts.add(rank.frozenFragment(e.getKey()));
            }
            Pieces vector = joined(parts);
            long count = e.getValue().elementCount();
            require(count <= vector.dim(0), e.getKey(), vector.dim(0), count);
            weights.put(
                    e.getKey(),
                    new Located(
                            new TensorSpec(e.getKey(), parts.getFirst().dtype(), e.getValue()),
                            vector.narrow(0, 0, count)));
        }
    }
}
