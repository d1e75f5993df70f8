package dev.octet.formats.dcp;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.file.OpenFiles;
import dev.octet.formats.file.PieceReader;
import dev.octet.formats.model.ExtraState;
import dev.octet.formats.model.PiecedShards;
import dev.octet.formats.model.PiecedShards.Located;
import dev.octet.formats.model.Pieces;
import dev.octet.formats.model.Pieces.Placed;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.formats.torch.FilePart;
import dev.octet.formats.torch.StateDict;
import dev.octet.formats.torch.TorchFile;
import dev.octet.formats.torch.TorchTensor;
import java.io.EOFException;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/** A distributed checkpoint with {@code .metadata}: its tensors, put together from their chunks. */
public final class DcpFolder {
    private static final String FIX = "copy the folder again, or save it again";

    private final Path folder;
    private final DcpMetadata metadata;
    private final Map<String, Long> sizes = new ConcurrentHashMap<>();

    private DcpFolder(Path folder, DcpMetadata metadata) {
        this.folder = folder;
        this.metadata = metadata;
    }

    /** Whether there is one in a folder. */
    public static boolean isOne(Path folder) {
        return Files.isRegularFile(folder.resolve(DcpMetadata.FILE_NAME));
    }

    /** The file that says where tensors lie. */
    public Path description() {
        return folder.resolve(DcpMetadata.FILE_NAME);
    }

    /**
     * Reads {@code .metadata}.
     *
     * @throws MalformedModelException when it contradicts itself
     * @throws IOException when it cannot be read
     */
    public static DcpFolder open(Path folder) throws IOException {
        return new DcpFolder(folder, DcpMetadata.read(folder.resolve(DcpMetadata.FILE_NAME)));
    }

    /**
     * Where the elements of a tensor lie.
     *
     * @param key one of {@link #keys}
     * @throws MalformedModelException when chunks overlap, are missing or are not what {@code .metadata} says
     * @throws IOException when a file cannot be read
     */
    public Located located(OpenFiles files, DcpKey key) throws IOException {
        DcpTensor tensor = key.tensor;
        List<Placed> placed = new ArrayList<>();
        for (DcpTensor.Chunk chunk : tensor.chunks()) {
            placed.add(new Placed(pieces(files, tensor, chunk), chunk.offsets()));
        }
        try {
            Pieces pieces = Pieces.assembled(tensor.shape(), tensor.dtype().bits() / Byte.SIZE, placed);
            return new Located(new TensorSpec(tensor.key(), tensor.dtype(), tensor.shape()), pieces);
        } catch (IllegalArgumentException e) {
            throw new MalformedModelException(
                    "tensor '" + tensor.key() + "' cannot be put together: " + e.getMessage(),
                    description().toString(),
                    FIX,
                    e);
        }
    }

    /** One tensor of the checkpoint. */
    public static final class DcpKey {
        private final DcpTensor tensor;

        private DcpKey(DcpTensor tensor) {
            this.tensor = tensor;
        }

        /** The keys of the dicts it lay in, joined by dots. */
        public String name() {
            return tensor.key();
        }

        /** Its shape. */
        public Shape shape() {
            return tensor.shape();
        }
    }

    /** All tensors that were saved. */
    public List<StateDict.Saved<DcpKey>> keys() {
        return metadata.tensors().stream()
                .map(t -> new StateDict.Saved<>(t.path(), new DcpKey(t)))
                .toList();
    }

    private Pieces pieces(OpenFiles files, DcpTensor tensor, DcpTensor.Chunk chunk) throws IOException {
        Path file = folder.resolve(chunk.file());
        Long size = sizes.get(chunk.file());
        if (size == null) {
            if (!Files.isRegularFile(file)) {
                throw new MalformedModelException(
                        "there is no file " + chunk.file() + ", which holds a part of tensor '" + tensor.key() + "'",
                        folder.toString(),
                        "a rank's files are missing: copy them into the folder");
            }
            size = Files.size(file);
            sizes.put(chunk.file(), size);
        }
        if (chunk.position() > size - chunk.length()) {
            throw new MalformedModelException(
                    "the part of tensor '" + tensor.key() + "' at " + chunk.offsets() + " ends at byte "
                            + (chunk.position() + chunk.length()) + ", the file has " + size,
                    file.toString(),
                    FIX);
        }
        TorchFile archive = TorchFile.open(new FilePart(files, file, chunk.position(), chunk.length()));
        if (!TorchFile.isTensor(archive.root())) {
            throw new MalformedModelException(
                    "the part of tensor '" + tensor.key() + "' at " + chunk.offsets() + " is no tensor",
                    file.toString(),
                    FIX);
        }
        TorchTensor part = archive.tensor(archive.root(), tensor.key());
        List<Long> dims = new ArrayList<>();
        for (long d : part.shape().toArray()) {
            dims.add(d);
        }
        if (part.dtype() != tensor.dtype() || !dims.equals(chunk.sizes())) {
            throw new MalformedModelException(
                    "the part of tensor '" + tensor.key() + "' at " + chunk.offsets() + " is " + part.dtype() + " "
                            + part.shape() + ", not " + tensor.dtype() + " " + chunk.sizes(),
                    file.toString(),
                    FIX);
        }
        return part.pieces();
    }

    /** Says how many objects are states of FP8 training; the rest is a program's own. */
    public List<String> notes() {
        return metadata.extraStates().isEmpty()
                ? List.of()
                : List.of(ExtraState.leftOut(metadata.extraStates().size()));
    }

    /** States of FP8 training, which are tensors of bytes, or objects in which Megatron saves those. */
    public List<ExtraState> extraStates() throws IOException {
        List<ExtraState> states = new ArrayList<>();
        StateDict<DcpKey> saved = StateDict.of(keys(), description().toString());
        try (OpenFiles files = new OpenFiles();
                Arena arena = Arena.ofConfined()) {
            for (Map.Entry<String, DcpKey> e : saved.extraStates().entrySet()) {
                Located tensor = located(files, e.getValue());
                long bytes = tensor.spec().byteSize();
                requireShort(e.getKey(), bytes);
                states.add(state(e.getKey(), PieceReader.read(files, tensor.pieces(), bytes, arena)));
            }
            for (Map.Entry<String, DcpTensor.Chunk> e : metadata.extraStates().entrySet()) {
                DcpTensor.Chunk chunk = e.getValue();
                requireShort(e.getKey(), chunk.length());
                MemorySegment bytes =
                        arena.allocate(Math.max(1, chunk.length())).asSlice(0, chunk.length());
                files.read(folder.resolve(chunk.file()), chunk.position(), bytes);
                states.add(state(ExtraState.moduleOf(e.getKey()), bytes));
            }
        } catch (EOFException e) {
            throw new MalformedModelException(
                    "a state of FP8 training ends beyond its file", folder.toString(), FIX, e);
        }
        return states;
    }

    private ExtraState state(String module, MemorySegment bytes) {
        return new ExtraState(module, bytes.toArray(ValueLayout.JAVA_BYTE), folder.toString());
    }

    private void requireShort(String key, long bytes) {
        if (bytes > ExtraState.MAX_BYTES) {
            throw new MalformedModelException(
                    "the state of FP8 training '" + key + "' has " + bytes + " bytes, at most " + ExtraState.MAX_BYTES
                            + " are read",
                    folder.toString(),
                    FIX);
        }
    }

    /** The weights of the checkpoint. */
    PiecedShards shards(Consumer<MalformedModelException> problems) throws IOException {
        StateDict<DcpKey> weights = StateDict.of(keys(), description().toString());
        List<Located> located = new ArrayList<>();
        List<Attempt> attempts = attempts(List.copyOf(weights.names().entrySet()));
        for (Attempt attempt : attempts) {
            if (attempt.failed() != null) {
                throw attempt.failed();
            }
            if (attempt.broken() != null) {
                problems.accept(attempt.broken());
            }
            if (attempt.located() != null) {
                located.add(attempt.located());
            }
        }
        List<String> notes = new ArrayList<>(weights.notes());
        notes.addAll(notes());
        return PiecedShards.of(description(), located, notes);
    }

    /** A tensor, or what is wrong with it. */
    private record Attempt(
            @Nullable Located located,
            @Nullable MalformedModelException broken,
            @Nullable IOException failed) {}

    /** Opens chunks in several threads: there are as many as tensors times ranks. */
    private List<Attempt> attempts(List<Map.Entry<String, DcpKey>> names) throws IOException {
        try (OpenFiles files = new OpenFiles()) {
            return names.parallelStream().map(e -> attempt(files, e)).toList();
        }
    }

    private Attempt attempt(OpenFiles files, Map.Entry<String, DcpKey> e) {
        try {
            Located tensor = located(files, e.getValue());
            return new Attempt(new Located(tensor.spec().withName(e.getKey()), tensor.pieces()), null, null);
        } catch (MalformedModelException broken) {
            return new Attempt(null, broken, null);
        } catch (IOException failed) {
            return new Attempt(null, null, failed);
        }
    }
}
