package dev.octet.formats.dcp;

import dev.octet.formats.file.PartFile;
import dev.octet.formats.pickle.Pickler;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.formats.torch.ArchivesFile;
import dev.octet.formats.torch.TorchArchive;
import dev.octet.formats.torch.TorchTypes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;

/**
 * Writes a folder that torch's {@code dcp.load} reads: whole tensors, one chunk each, in files of a rank. {@code .metadata} comes last, so that no reader takes
 * an unfinished folder for a checkpoint.
 */
public final class DcpWriter {
    /** Bytes after which another file begins. */
    private static final long FILE_BYTES = 5_000_000_000L;

    private static final String METADATA = "torch.distributed.checkpoint.metadata";

    private final Path folder;
    private final long fileBytes;
    private final List<Chunk> chunks = new ArrayList<>();

    private DcpWriter(Path folder, long fileBytes) {
        this.folder = folder;
        this.fileBytes = fileBytes;
    }

    /** A tensor and where it was written. */
    private record Chunk(TensorSpec spec, String file, long position, long length) {}

    /**
     * Writes tensors.
     *
     * @param folder is there
     * @param content provides the bytes of one tensor at a time, in the order given
     * @return bytes written
     * @throws dev.octet.formats.error.UnsupportedModelException when torch has no tensors of a type; nothing is written then
     * @throws IOException when writing fails; {@code .metadata} is not there then
     */
    public static long write(Path folder, Collection<TensorSpec> tensors, SafetensorsWriter.Content content)
            throws IOException {
        return write(folder, tensors, content, FILE_BYTES);
    }

    static long write(Path folder, Collection<TensorSpec> tensors, SafetensorsWriter.Content content, long fileBytes)
            throws IOException {
        tensors.forEach(TorchArchive::of); // refuses types before anything is written
        return new DcpWriter(folder, fileBytes).write(tensors, content);
    }

    private long write(Collection<TensorSpec> tensors, SafetensorsWriter.Content content) throws IOException {
        Files.deleteIfExists(folder.resolve(DcpMetadata.FILE_NAME));
        long bytes = 0;
        List<TensorSpec> left = new ArrayList<>(tensors);
        for (int number = 0; !left.isEmpty(); number++) {
            List<TensorSpec> file = new ArrayList<>();
            long size = 0;
            while (!left.isEmpty() && (file.isEmpty() || size + left.getFirst().byteSize() <= fileBytes)) {
                size += left.getFirst().byteSize();
                file.add(left.removeFirst());
            }
            bytes += writeFile("__0_" + number + ".distcp", file, content);
        }
        byte[] metadata = metadata();
        Path part = PartFile.partOf(folder.resolve(DcpMetadata.FILE_NAME));
        Files.write(part, metadata);
        Files.move(
                part,
                folder.resolve(DcpMetadata.FILE_NAME),
                StandardCopyOption.ATOMIC_MOVE,
                StandardCopyOption.REPLACE_EXISTING);
        return bytes + metadata.length;
    }

    private long writeFile(String name, List<TensorSpec> tensors, SafetensorsWriter.Content content)
            throws IOException {
        try (ArchivesFile file = ArchivesFile.create(folder.resolve(name))) {
            for (TensorSpec tensor : tensors) {
                long position = file.position();
                TorchArchive.of(tensor).write(content, file);
                chunks.add(new Chunk(tensor, name, position, file.position() - position));
            }
            file.publish();
            return file.position();
        }
    }

    /** What is where, as torch's planner for saving writes it for a state dict without dicts in it. */
    private byte[] metadata() {
        Pickler p = new Pickler();
        p.global(METADATA, "Metadata").emptyTuple().object().dict().mark();
        p.text("state_dict_metadata").dict().mark();
        for (Chunk c : chunks) {
            p.text(c.spec().name());
            tensor(p, c.spec());
        }
        p.items();
        p.text("planner_data").dict().mark();
        for (Chunk c : chunks) {
            p.text(c.spec().name()).mark().text(c.spec().name()).tuple();
        }
        p.items();
        p.text("storage_data").dict().mark();
        for (Chunk c : chunks) {
            p.global(METADATA, "MetadataIndex").emptyTuple().object().dict().mark();
            p.text("fqn").text(c.spec().name()).text("offset");
            size(p, zeros(c.spec()));
            p.text("index").number(0).items().build();
            p.global("torch.distributed.checkpoint.filesystem", "_StorageInfo")
                    .emptyTuple()
                    .object()
                    .dict()
                    .mark();
            p.text("relative_path").text(c.file()).text("offset").number(c.position());
            p.text("length").number(c.length()).items().build();
        }
        p.items();
        p.text("storage_meta").none();
        p.text("version").text("1.0.0").items().build();
        return p.end();
    }

    private static void tensor(Pickler p, TensorSpec spec) {
        p.global(METADATA, "TensorStorageMetadata").emptyTuple().object().dict().mark();
        p.text("properties")
                .global(METADATA, "TensorProperties")
                .emptyTuple()
                .object()
                .mark();
        p.global("torch", TorchTypes.name(spec.dtype()).orElseThrow());
        p.global("torch.serialization", "_get_layout")
                .mark()
                .text("torch.strided")
                .tuple()
                .reduce();
        p.bool(false);
        p.global(METADATA, "_MEM_FORMAT_ENCODING").mark().number(0).tuple().reduce();
        p.bool(false).tuple().build();
        p.text("size");
        size(p, dims(spec));
        p.text("chunks").list().mark();
        p.global(METADATA, "ChunkStorageMetadata").emptyTuple().object().dict().mark();
        p.text("offsets");
        size(p, zeros(spec));
        p.text("sizes");
        size(p, dims(spec));
        p.items().build().appends().items().build();
    }

    private static void size(Pickler p, List<Long> dims) {
        p.global("torch", "Size").mark().tuple(dims).tuple().reduce();
    }

    private static List<Long> dims(TensorSpec spec) {
        List<Long> dims = new ArrayList<>();
        for (long d : spec.shape().toArray()) {
            dims.add(d);
        }
        return dims;
    }

    private static List<Long> zeros(TensorSpec spec) {
        return dims(spec).stream().map(_ -> 0L).toList();
    }
}
