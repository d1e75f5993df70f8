package dev.octet.trainer.device.cuda;

import dev.octet.formats.file.AtomicFile;
import dev.octet.formats.file.PrivateFolder;
import dev.octet.formats.file.Sha256;
import dev.octet.trainer.kernel.CudaSource;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.Optional;

/**
 * Cache of compiled kernels: one file each, named by the digest of all inputs of its compilation. A file starts with the digest of its
 * contents, so a damaged file is detected and replaced. A folder that is not writable, or that other users can write to, is not used, which
 * is logged once.
 */
final class KernelCache {
    private static final System.Logger LOG = System.getLogger(KernelCache.class.getName());
    private static final int DIGEST_BYTES = 32;

    /** Largest file to read: kernels have a few hundred KiB. */
    private static final long MAX_BYTES = 64L << 20;

    private final Path folder;
    private boolean warned;

    /** Compiles kernels missing from the cache. */
    interface Maker {
        /** Compiles the kernel. */
        byte[] make() throws CompileException;
    }

    KernelCache(Path folder) {
        this.folder = folder;
    }

    /** File name for a source. */
    static String name(CudaSource source, String compiler, ComputeCapability architecture) {
        String digest =
                Sha256.of(identity(source), String.join(" ", KernelCompiler.OPTIONS), compiler, architecture.option());
        return stem(source) + "-" + digest.substring(0, 32) + "." + architecture.extension();
    }

    /** Digest of the text and macros of a source. */
    static String identity(CudaSource source) {
        return Sha256.of(source.text(), CudaSource.prelude(), String.join(" ", KernelCompiler.macros(source)));
    }

    /** Base name of a source: {@code gelu} for {@code gelu.cu}. */
    static String stem(CudaSource source) {
        String file = source.file().substring(source.file().lastIndexOf('/') + 1);
        return file.endsWith(".cu") ? file.substring(0, file.length() - 3) : file;
    }

    /** Contents of the file {@code name}; compiled and cached if it is missing. */
    byte[] get(String name, Maker maker) throws CompileException {
        Path file = folder.resolve(name);
        Optional<byte[]> kept = read(file);
        if (kept.isPresent()) {
            return kept.get();
        }
        byte[] made = maker.make();
        write(file, made);
        return made;
    }

    private Optional<byte[]> read(Path file) {
        try {
            PrivateFolder.open(folder); // rejects a folder that others can write to
            if (!Files.isRegularFile(file) || Files.size(file) <= DIGEST_BYTES || Files.size(file) > MAX_BYTES) {
                return Optional.empty();
            }
            byte[] all = Files.readAllBytes(file);
            byte[] content = Arrays.copyOfRange(all, DIGEST_BYTES, all.length);
            return MessageDigest.isEqual(digest(content), Arrays.copyOf(all, DIGEST_BYTES))
                    ? Optional.of(content)
                    : Optional.empty();
        } catch (IOException e) {
            return Optional.empty(); // compile again
        }
    }

    private void write(Path file, byte[] content) {
        try {
            PrivateFolder.open(folder);
            try (AtomicFile out = AtomicFile.create(file)) {
                out.write(ByteBuffer.wrap(digest(content)));
                out.write(ByteBuffer.wrap(content));
                out.commit();
            }
        } catch (IOException e) {
            if (!warned) {
                warned = true;
                LOG.log(
                        System.Logger.Level.WARNING,
                        "compiled kernels cannot be cached, so each start compiles them again: {0}; octet.cache or"
                                + " XDG_CACHE_HOME names another folder",
                        e.toString());
            }
        }
    }

    private static byte[] digest(byte[] content) {
        try {
            return MessageDigest.getInstance("SHA-256").digest(content);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every JDK has SHA-256", e);
        }
    }

    @Override
    public String toString() {
        return folder.toString();
    }
}
