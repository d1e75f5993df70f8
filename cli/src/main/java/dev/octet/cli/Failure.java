package dev.octet.cli;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.FinalNames;
import dev.octet.formats.file.FolderLock;
import dev.octet.formats.file.NoSpaceException;
import dev.octet.formats.file.ShortenedFileException;
import dev.octet.pipeline.quickstart.DownloadException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.FileSystemLoopException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Objects;
import java.util.Optional;
import java.util.regex.Pattern;

/**
 * Why a run ended without its result, in three lines, with the exit code that goes with it.
 *
 * @param what what is wrong, one line
 * @param where where it was found, one line
 * @param fix what the user can do, one line
 */
record Failure(ExitCode code, String what, String where, String fix) {
    private static final Pattern HUB_ID = Pattern.compile("[A-Za-z0-9][\\w.-]*/[A-Za-z0-9][\\w.-]*");

    /** Names of files that Octet reads. */
    private static final Pattern FILE =
            Pattern.compile("\\.(?:onnx|safetensors|json|jsonl|npz|bin|ya?ml|stats|html|txt)$");

    /** Causes of causes looked at. */
    private static final int MAX_CAUSES = 16;

    Failure {
        what = oneLine(FinalNames.in(what));
        where = oneLine(FinalNames.in(where));
        fix = oneLine(fix);
    }

    /** The kind of failure that {@code thrown} stands for. Anything that Octet did not foresee is a bug of Octet. */
    static Failure of(Throwable thrown) {
        return switch (thrown) {
            case OctetException e -> ofOctet(e);
            case UncheckedIOException e -> ofIo(Objects.requireNonNullElse(e.getCause(), new IOException(e)));
            case IOException e -> ofIo(e);
            case OutOfMemoryError e -> ofMemory(e);
            default -> linking(thrown).map(Failure::ofLinking).orElseGet(() -> ofBug(thrown));
        };
    }

    /** The native library that could not be loaded, where that is why. */
    private static Optional<UnsatisfiedLinkError> linking(Throwable thrown) {
        int depth = 0;
        for (Throwable t = thrown; t != null && depth < MAX_CAUSES; t = t.getCause(), depth++) {
            if (t instanceof UnsatisfiedLinkError e) {
                return Optional.of(e);
            }
        }
        return Optional.empty();
    }

    private static Failure ofLinking(UnsatisfiedLinkError e) {
        return new Failure(
                ExitCode.UNAVAILABLE,
                "a native library cannot be loaded",
                message(e),
                "install what it needs, or use a system that Octet has native libraries for");
    }

    private static Failure ofOctet(OctetException e) {
        ExitCode code = switch (e) {
            case InvalidOptionException _ -> ExitCode.USAGE;
            case MalformedModelException _, UnsupportedModelException _, InvalidDataException _ -> ExitCode.INPUT;
            case UnavailableException _ -> ExitCode.UNAVAILABLE;
        };
        return new Failure(code, FinalNames.ofBuilt(e.what()), FinalNames.ofBuilt(e.where()), e.fix());
    }

    private static Failure ofIo(IOException e) {
        String file = e instanceof FileSystemException f && f.getFile() != null ? f.getFile() : "input or output";
        String reason = message(e);
        return switch (e) {
            case ShortenedFileException s ->
                io(
                        Objects.requireNonNull(s.getReason()),
                        file,
                        "run again, and let nothing write the file meanwhile; what this run wrote may be wrong");
            case DownloadException d -> io(reason, d.where(), d.fix());
            case NoSuchFileException _ ->
                io(
                        "no such file or folder",
                        file,
                        isHubId(file)
                                ? "check the path; Octet downloads nothing: for the model of Hugging Face, `hf"
                                        + " download "
                                        + file + " --local-dir " + file.substring(file.indexOf('/') + 1) + "`"
                                : "check the path; a relative one starts at the current folder, in a configuration at"
                                        + " its folder");
            case AccessDeniedException _ ->
                io("permission denied", file, "check the owner and mode of it and its folder");
            case FileAlreadyExistsException _ ->
                io("a file or folder is in the way", file, "choose another name, or remove it");
            case NotDirectoryException _ -> io("not a folder", file, "give the path of a folder");
            case DirectoryNotEmptyException _ -> io("the folder is not empty", file, "choose another one, or empty it");
            case FileSystemLoopException _ ->
                io("links lead in a circle", file, "remove the link, or give another folder");
            case NoSpaceException full ->
                io(
                        String.format(
                                Locale.ROOT,
                                "%s: it needs %,d bytes, %,d are free",
                                reason.contains("No space") ? "no space left on device" : withoutFile(reason, file),
                                full.needed(),
                                full.free()),
                        file,
                        "free some space, or write to another disk");
            case FileSystemException _
            when reason.endsWith(FolderLock.TAKEN) ->
                io(FolderLock.TAKEN, file, "wait for its end, or choose another folder");
            default ->
                reason.contains("No space left on device")
                        ? io("no space left on device", file, "free some space, or write to another disk")
                        : io(reason, file, "check the disk and the path, then run again");
        };
    }

    /** Whether a path that is not there looks as a model is called on Hugging Face: {@code organisation/model}. */
    private static boolean isHubId(String file) {
        return HUB_ID.matcher(file).matches()
                && !FILE.matcher(file).find()
                && !Files.exists(Path.of(file.substring(0, file.indexOf('/'))));
    }

    /** What the system said: a {@link FileSystemException} has the file before it. */
    private static String withoutFile(String reason, String file) {
        return reason.startsWith(file + ": ") ? reason.substring(file.length() + 2) : reason;
    }

    private static Failure io(String what, String where, String fix) {
        return new Failure(ExitCode.IO, what, where, fix);
    }

    private static Failure ofMemory(OutOfMemoryError e) {
        return new Failure(
                ExitCode.UNAVAILABLE,
                "not enough memory: " + message(e),
                String.format(
                        Locale.ROOT,
                        "Java heap, limit %d MiB",
                        Runtime.getRuntime().maxMemory() >> 20),
                "give the JVM more: OCTET_JAVA_OPTIONS=-Xmx4g ./octet ...");
    }

    private static Failure ofBug(Throwable e) {
        StackTraceElement[] trace = e.getStackTrace();
        String where = trace.length == 0 ? "unknown place" : trace[0].toString();
        return new Failure(
                ExitCode.BUG,
                "a bug in Octet: " + e.getClass().getSimpleName() + ": " + message(e),
                where,
                "run again with OCTET_DEBUG=1 and report what it prints in the issue tracker of the project");
    }

    private static String message(Throwable e) {
        String message = e.getMessage();
        return message == null || message.isBlank() ? e.getClass().getSimpleName() : message;
    }

    /** Names from hostile files end up in messages: control characters would break the three lines (or a terminal). */
    private static String oneLine(String text) {
        return Printable.of(text.replaceAll("[\\n\\r\\t]", " "));
    }

    /** What {@code --json} prints. */
    record Answer(Facts error) {}

    /** The three lines, and the exit code as a number. */
    record Facts(String what, String where, String fix, int exit) {}

    Answer answer() {
        return new Answer(new Facts(what, where, fix, code.number()));
    }

    /** The three lines, without a line break at the end. */
    String text() {
        return text(TextStyle.PLAIN);
    }

    /** The three lines in a style. */
    String text(TextStyle style) {
        String newLine = System.lineSeparator();
        return style.fold(style.paint(Tone.BAD, "octet:") + " " + what + newLine + "  where: " + where + newLine
                + "  fix:   " + fix);
    }
}
