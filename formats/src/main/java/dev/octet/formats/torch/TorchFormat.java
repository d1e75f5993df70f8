package dev.octet.formats.torch;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.MappedFile;
import dev.octet.formats.file.OpenFiles;
import dev.octet.formats.file.PieceReader;
import dev.octet.formats.model.ExtraState;
import dev.octet.formats.model.Model;
import dev.octet.formats.model.PiecedShards;
import dev.octet.formats.model.PiecedShards.Located;
import dev.octet.formats.model.Pieces;
import dev.octet.formats.model.Shard;
import dev.octet.formats.model.ShardHeader;
import dev.octet.formats.model.ShardSet;
import dev.octet.formats.model.StreamedFormat;
import dev.octet.formats.pickle.PickleValue;
import dev.octet.formats.safetensors.ShardIndex;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import java.util.stream.Stream;

/**
 * State dicts of {@code torch.save}: {@code pytorch_model.bin}, its shards with their index, any {@code .pt}, {@code .pth} or {@code .bin}, in the zip form and in
 * the older one. Tensors are read by position; views, strides and shared storages are as torch has them. No pickled code is run.
 */
public final class TorchFormat implements StreamedFormat {
    /** File of transformers with all weights. */
    public static final String SINGLE_FILE = "pytorch_model.bin";

    /** Index of transformers for several files. */
    public static final String INDEX = "pytorch_model.bin.index.json";

    private static final Set<String> EXTENSIONS = Set.of(".bin", ".pt", ".pth", ".ckpt");

    /** Files of programs that are no weights. */
    private static final Set<String> OTHERS = Set.of(
            "training_args.bin",
            "optimizer.pt",
            "optimizer.bin",
            "scheduler.pt",
            "scheduler.bin",
            "scaler.pt",
            "rng_state.pth");

    /** The format; stateless. */
    public TorchFormat() {}

    @Override
    public String name() {
        return "torch";
    }

    /** Recognises a zip archive with a {@code data.pkl}, the older form's number, an index of such files, and a folder with a model in one of these. */
    @Override
    public boolean recognises(Path path) throws IOException {
        if (Files.isDirectory(path)) {
            return Files.exists(path.resolve(INDEX))
                    || Files.exists(path.resolve(SINGLE_FILE))
                    || modelFiles(path).size() == 1;
        }
        if (path.toString().endsWith(".bin.index.json")) {
            return true;
        }
        if (!Files.isRegularFile(path) || !TorchFile.isHead(path)) {
            return false;
        }
        if (MappedFile.head(path, 1)[0] != 'P') {
            return true;
        }
        try (OpenFiles files = new OpenFiles()) {
            return TorchFile.isArchive(FilePart.of(files, path));
        }
    }

    private static List<Path> modelFiles(Path folder) throws IOException {
        List<Path> found = new ArrayList<>();
        List<Path> candidates;
        try (Stream<Path> all = Files.list(folder)) {
            candidates = all.filter(f -> {
                        String name = String.valueOf(f.getFileName());
                        int dot = name.lastIndexOf('.');
                        return dot > 0
                                && EXTENSIONS.contains(name.substring(dot))
                                && !OTHERS.contains(name)
                                && !name.startsWith("rng_state_")
                                && !name.endsWith("_states.pt");
                    })
                    .sorted()
                    .toList();
        }
        for (Path file : candidates) {
            if (Files.isRegularFile(file) && TorchFile.isHead(file)) {
                found.add(file);
            }
        }
        return found;
    }

    private static Path modelFile(Path path) throws IOException {
        if (!Files.isDirectory(path)) {
            return path;
        }
        if (Files.exists(path.resolve(INDEX))) {
            return path.resolve(INDEX);
        }
        if (Files.exists(path.resolve(SINGLE_FILE))) {
            return path.resolve(SINGLE_FILE);
        }
        List<Path> files = modelFiles(path);
        if (files.size() != 1) {
            throw new UnsupportedModelException(
                    files.isEmpty()
                            ? "there is no model of torch in this folder"
                            : "there are " + files.size() + " files of torch and no " + INDEX,
                    path.toString(),
                    "give one of the files");
        }
        return files.getFirst();
    }

    @Override
    public ShardSet shards(Path path, Consumer<MalformedModelException> problems) throws IOException {
        Path file = modelFile(path.toAbsolutePath());
        List<Located> tensors = new ArrayList<>();
        Set<String> notes = new LinkedHashSet<>();
        try (OpenFiles files = new OpenFiles()) {
            if (!file.toString().endsWith(".json")) {
                read(files, file, tensors, notes, problems);
            } else {
                readShards(files, file, tensors, notes, problems);
            }
        }
        return PiecedShards.of(file, tensors, List.copyOf(notes));
    }

    /** What Transformer Engine saved, as uint8 tensors or as buffers. */
    @Override
    public List<ExtraState> extraStates(Path path) throws IOException {
        Path file = modelFile(path.toAbsolutePath());
        List<Path> all = file.toString().endsWith(".json")
                ? List.copyOf(ShardIndex.read(file).shardPaths(file).values())
                : List.of(file);
        List<ExtraState> states = new ArrayList<>();
        try (OpenFiles files = new OpenFiles()) {
            for (Path one : all) {
                TorchFile torch = TorchFile.open(FilePart.of(files, one));
                StateDict<PickleValue> found =
                        StateDict.of(StateDict.tensors(torch.root(), one.toString()), one.toString());
                for (Map.Entry<String, PickleValue> e : found.extraStates().entrySet()) {
                    byte[] bytes = torch.bufferOrTensor(e.getValue(), e.getKey(), ExtraState.MAX_BYTES);
                    states.add(new ExtraState(e.getKey(), bytes, one.toString()));
                }
            }
        }
        return states;
    }

    private static void readShards(
            OpenFiles files,
            Path index,
            List<Located> tensors,
            Set<String> notes,
            Consumer<MalformedModelException> problems)
            throws IOException {
        try {
            ShardIndex shards = ShardIndex.read(index);
            Map<String, List<String>> names = new LinkedHashMap<>();
            for (Map.Entry<String, Path> shard : shards.shardPaths(index).entrySet()) {
                int before = tensors.size();
                read(files, shard.getValue(), tensors, notes, problems);
                names.put(
                        shard.getKey(),
                        tensors.subList(before, tensors.size()).stream()
                                .map(t -> t.spec().name())
                                .toList());
            }
            shards.check(names, index);
        } catch (MalformedModelException e) {
            problems.accept(e);
        }
    }

    private static void read(
            OpenFiles files,
            Path file,
            List<Located> tensors,
            Set<String> notes,
            Consumer<MalformedModelException> problems)
            throws IOException {
        try {
            TorchFile torch = TorchFile.open(FilePart.of(files, file));
            StateDict<PickleValue> found =
                    StateDict.of(StateDict.tensors(torch.root(), file.toString()), file.toString());
            for (Map.Entry<String, PickleValue> e : found.names().entrySet()) {
                TorchTensor tensor = torch.tensor(e.getValue(), e.getKey());
                tensors.add(new Located(tensor.spec(e.getKey()), tensor.pieces()));
            }
            notes.addAll(found.notes());
            if (found.names().isEmpty()) {
                throw new UnsupportedModelException(
                        "the file holds no weights"
                                + (found.notes().isEmpty()
                                        ? ""
                                        : ": " + found.notes().getFirst()),
                        file.toString(),
                        "give a file with a state dict");
            }
        } catch (MalformedModelException e) {
            problems.accept(e);
        }
    }

    @Override
    public Model read(Path path, Arena arena) throws IOException {
        return model(
                shards(path, problem -> {
                    throw problem;
                }),
                arena);
    }

    /** Tensors that are one run as views of mapped files, others put together in memory of {@code arena}. */
    public static Model model(ShardSet set, Arena arena) throws IOException {
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        Map<Path, MemorySegment> mapped = new HashMap<>();
        try (OpenFiles files = new OpenFiles()) {
            for (Shard shard : set.shards()) {
                for (ShardHeader.Entry entry : shard.header().entries()) {
                    Pieces pieces = entry.pieces().orElseThrow();
                    long bytes = entry.spec().byteSize();
                    Optional<Pieces.Piece> run = pieces.run();
                    MemorySegment data;
                    if (run.isPresent()) {
                        Path file = run.get().file();
                        if (!mapped.containsKey(file)) {
                            mapped.put(file, MappedFile.map(file, arena));
                        }
                        data = mapped.get(file).asSlice(run.get().position(), bytes);
                    } else {
                        data = PieceReader.read(files, pieces, bytes, arena);
                    }
                    tensors.put(entry.spec().name(), new Tensor(entry.spec(), data));
                }
            }
        }
        return Model.of(tensors, Map.of("format", "pt"));
    }

    @Override
    public List<Path> otherFiles(Path path) throws IOException {
        return Files.isDirectory(path)
                ? List.of()
                : filesBeside(path, shards(path, problem -> {
                    throw problem;
                }));
    }

    /** The files that tensors are read from, without {@code path} itself. */
    public static List<Path> filesBeside(Path path, ShardSet set) {
        return set.shards().stream()
                .flatMap(s -> s.files().stream())
                .filter(f -> !f.equals(path.toAbsolutePath()))
                .distinct()
                .toList();
    }

    /** @throws UnsupportedModelException always: models are written as safetensors */
    @Override
    public void write(Model model, Path path) {
        throw notWritten(name(), path);
    }

    /** What formats say that are only read. */
    public static UnsupportedModelException notWritten(String format, Path path) {
        return new UnsupportedModelException(
                "models are not written as " + format + " files", path.toString(), "end the name in .safetensors");
    }
}
