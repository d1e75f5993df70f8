package dev.octet.converter.verify;

import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.peft.PeftAdapter;
import dev.octet.formats.peft.PeftConfig;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** An adapter, and its base if there is one to compare with. */
final class AdapterSubject implements AutoCloseable {
    private final PeftAdapter adapter;
    private final @Nullable BaseShapes base;
    private final String note;

    private AdapterSubject(PeftAdapter adapter, @Nullable BaseShapes base, String note) {
        this.adapter = adapter;
        this.base = base;
        this.note = note;
    }

    /**
     * Opens an adapter and its base: the one given, else the folder that {@code base_model_name_or_path} names, if it is here.
     *
     * @throws OctetException when the adapter or the given base cannot be read
     * @throws IOException when a file is not there or cannot be read
     */
    static AdapterSubject open(Path path, VerifyOptions options) throws IOException {
        PeftAdapter adapter = PeftAdapter.open(path);
        boolean opened = false;
        try {
            AdapterSubject subject;
            if (options.original().isPresent()) {
                subject = new AdapterSubject(
                        adapter, BaseShapes.open(options.original().get()), "");
            } else {
                Optional<Path> named = named(adapter);
                subject = named.isPresent()
                        ? new AdapterSubject(
                                adapter,
                                BaseShapes.open(named.get()),
                                "compared with the base it names, " + named.get())
                        : new AdapterSubject(
                                adapter, null, "names and shapes were not compared with the base; --base MODEL does");
            }
            opened = true;
            return subject;
        } finally {
            if (!opened) {
                adapter.close();
            }
        }
    }

    private static Optional<Path> named(PeftAdapter adapter) throws IOException {
        Optional<String> name = adapter.config().baseModel();
        if (name.isEmpty()) {
            return Optional.empty();
        }
        try {
            Path path = Path.of(name.get());
            return Files.isDirectory(path) && Checkpoint.isCheckpoint(path) ? Optional.of(path) : Optional.empty();
        } catch (InvalidPathException e) {
            return Optional.empty(); // a name that no file can have
        }
    }

    /** The adapter. */
    PeftAdapter adapter() {
        return adapter;
    }

    /** Its configuration. */
    PeftConfig config() {
        return adapter.config();
    }

    /** Its base; empty when none is at hand. */
    Optional<BaseShapes> base() {
        return Optional.ofNullable(base);
    }

    /** What the reader should know about the comparison with the base; may be empty. */
    String note() {
        return note;
    }

    @Override
    public void close() {
        adapter.close();
    }
}
