package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.FolderLock;
import dev.octet.formats.file.NoSpaceException;
import dev.octet.pipeline.quickstart.DownloadException;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileSystemException;
import java.nio.file.FileSystemLoopException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class FailureTest {
    static Stream<Arguments> failures() {
        return Stream.of(
                Arguments.of(new InvalidOptionException("a", "b", "c"), 2),
                Arguments.of(new MalformedModelException("a", "b", "c"), 3),
                Arguments.of(new UnsupportedModelException("a", "b", "c"), 3),
                Arguments.of(new InvalidDataException("a", "b", "c"), 3),
                Arguments.of(new UnavailableException("a", "b", "c"), 5),
                Arguments.of(new NoSuchFileException("model.onnx"), 4),
                Arguments.of(new AccessDeniedException("model.onnx"), 4),
                Arguments.of(new UncheckedIOException(new IOException("read error")), 4),
                Arguments.of(new OutOfMemoryError("Java heap space"), 5),
                Arguments.of(new StackOverflowError(), 70),
                Arguments.of(new AssertionError("unforeseen"), 70),
                Arguments.of(new InternalError("unforeseen"), 70),
                Arguments.of(new NoClassDefFoundError("a class"), 70),
                Arguments.of(new UnsatisfiedLinkError("libm.so"), 5),
                Arguments.of(new ExceptionInInitializerError(new UnsatisfiedLinkError("libm.so")), 5),
                Arguments.of(new IllegalStateException("unforeseen"), 70));
    }

    @ParameterizedTest
    @MethodSource("failures")
    void every_kind_of_failure_has_its_exit_code_and_three_lines(Throwable thrown, int code) {
        Failure failure = Failure.of(thrown);
        assertEquals(code, failure.code().number());
        assertEquals(3, failure.text().lines().count(), failure.text());
    }

    @Test
    void a_folder_that_another_run_writes_is_to_be_waited_for() {
        Failure failure = Failure.of(new FileSystemException("run", null, FolderLock.TAKEN));
        assertEquals(
                new Failure(ExitCode.IO, FolderLock.TAKEN, "run", "wait for its end, or choose another folder"),
                failure);
    }

    @Test
    void an_error_that_nobody_foresaw_is_a_bug_and_not_a_failed_check() {
        PrintStream broken = new PrintStream(OutputStream.nullOutputStream()) {
            @Override
            public void println(String line) {
                throw new NoClassDefFoundError("a class");
            }
        };
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        Screen screen = new Screen(broken, new PrintStream(err, true, StandardCharsets.UTF_8), false, 0);
        assertEquals(ExitCode.BUG, Octet.run(List.of("--version"), screen));
        assertTrue(err.toString(StandardCharsets.UTF_8).contains("a bug in Octet"));
    }

    @Test
    void what_could_not_be_fetched_says_where_and_what_to_do() {
        Failure failure = Failure.of(new DownloadException("no such artifact", "maven.log", "check the network"));
        assertEquals(new Failure(ExitCode.IO, "no such artifact", "maven.log", "check the network"), failure);
    }

    @Test
    void a_full_disk_is_called_by_its_name() {
        Failure failure = Failure.of(new FileSystemException("out.onnx", null, "No space left on device"));
        assertEquals(ExitCode.IO, failure.code());
        assertEquals("no space left on device", failure.what());
        assertEquals("out.onnx", failure.where());
    }

    @Test
    void a_full_disk_is_recognised_without_a_file_name_too() {
        assertEquals(
                "no space left on device",
                Failure.of(new IOException("No space left on device")).what());
    }

    @Test
    void names_from_a_hostile_file_can_neither_add_lines_nor_steer_the_terminal() {
        Failure failure = Failure.of(new MalformedModelException("node 'a\nfix: rm\u001b[2J'", "b\r\nc", "d"));
        assertEquals(3, failure.text().lines().count(), failure.text());
        assertTrue(failure.text().contains("\\u001b[2J"), failure.text());
    }

    @Test
    void a_bug_says_how_to_report_it() {
        assertTrue(Failure.of(new IllegalStateException("unforeseen")).fix().contains("report"));
    }

    @Test
    void a_full_disk_names_the_file_and_says_how_much_was_needed() {
        Path file = Path.of("out", "model.safetensors").toAbsolutePath();
        Failure failure = Failure.of(NoSpaceException.of(file, 1234567, new IOException("No space left on device")));
        assertEquals(ExitCode.IO, failure.code());
        assertTrue(failure.what().startsWith("no space left on device: it needs 1,234,567 bytes, "), failure.what());
        assertEquals(file.toString(), failure.where());
        Failure limited = Failure.of(NoSpaceException.of(file, 5, new IOException("File too large")));
        assertTrue(limited.what().startsWith("File too large: it needs 5 bytes"), limited.what());
    }

    @Test
    void links_in_a_circle_are_called_so() {
        Failure failure = Failure.of(new FileSystemLoopException("model/link"));
        assertEquals("links lead in a circle", failure.what());
        assertEquals("model/link", failure.where());
    }
}
