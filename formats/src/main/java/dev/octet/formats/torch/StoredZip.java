package dev.octet.formats.torch;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The directory of a zip archive whose members are stored as they are, as torch writes them, so that their bytes can be read by position. The archive may be a
 * part of a larger file. Source: PKWARE's APPNOTE, sections 4.3 and 4.5.3 (zip64).
 */
final class StoredZip {
    private static final int END = 0x06054b50;
    private static final int END_BYTES = 22;
    private static final int LOCATOR = 0x07064b50;
    private static final int LOCATOR_BYTES = 20;
    private static final int END_64 = 0x06064b50;
    private static final int END_64_BYTES = 56;
    private static final int MEMBER = 0x02014b50;
    private static final int MEMBER_BYTES = 46;
    private static final int LOCAL = 0x04034b50;
    private static final int LOCAL_BYTES = 30;
    private static final int MAX_COMMENT = 0xFFFF;
    private static final long MAX_DIRECTORY_BYTES = 1L << 28;
    private static final String FIX = "copy or save the file again";

    private final FilePart part;
    private final Map<String, Member> members = new LinkedHashMap<>();

    /** A member as the directory has it. */
    private record Member(long header, long size, int method, boolean encrypted) {}

    private StoredZip(FilePart part) {
        this.part = part;
    }

    /**
     * Reads the directory.
     *
     * @throws MalformedModelException when it is not a zip archive, or its directory lies outside of it
     */
    static StoredZip open(FilePart part) throws IOException {
        StoredZip zip = new StoredZip(part);
        zip.readDirectory();
        return zip;
    }

    private void readDirectory() throws IOException {
        long length = part.length();
        // without a comment, which torch never writes, the end is where it is expected; otherwise it is looked for
        long tail = Math.min(length, END_BYTES);
        ByteBuffer end = buffer(length - tail, tail);
        int at = endIn(end);
        if (at < 0) {
            tail = Math.min(length, END_BYTES + MAX_COMMENT);
            end = buffer(length - tail, tail);
            at = endIn(end);
        }
        if (at < 0) {
            throw damaged("the file is no whole zip archive: its directory is not at the end");
        }
        long count = Short.toUnsignedInt(end.getShort(at + 10));
        long size = Integer.toUnsignedLong(end.getInt(at + 12));
        long offset = Integer.toUnsignedLong(end.getInt(at + 16));
        long endAt = length - tail + at;
        if ((count == 0xFFFF || size == 0xFFFFFFFFL || offset == 0xFFFFFFFFL) && endAt >= LOCATOR_BYTES) {
            ByteBuffer locator = buffer(endAt - LOCATOR_BYTES, LOCATOR_BYTES);
            if (locator.getInt(0) == LOCATOR) {
                ByteBuffer end64 = buffer(locator.getLong(8), END_64_BYTES);
                if (end64.getInt(0) != END_64) {
                    throw damaged("the zip archive's 64-bit end is not where its locator says");
                }
                count = end64.getLong(32);
                size = end64.getLong(40);
                offset = end64.getLong(48);
            }
        }
        if (size < 0 || size > MAX_DIRECTORY_BYTES || count < 0 || count > size / MEMBER_BYTES) {
            throw damaged("the zip archive's directory of " + size + " bytes has " + count + " members");
        }
        readMembers(buffer(offset, size), count);
    }

    private static int endIn(ByteBuffer bytes) {
        for (int at = bytes.capacity() - END_BYTES; at >= 0; at--) {
            if (bytes.getInt(at) == END) {
                return at;
            }
        }
        return -1;
    }

    private void readMembers(ByteBuffer directory, long count) {
        int at = 0;
        for (long i = 0; i < count; i++) {
            if (directory.capacity() - at < MEMBER_BYTES || directory.getInt(at) != MEMBER) {
                throw damaged("member " + i + " is missing in the zip archive's directory");
            }
            int nameBytes = Short.toUnsignedInt(directory.getShort(at + 28));
            int extraBytes = Short.toUnsignedInt(directory.getShort(at + 30));
            int commentBytes = Short.toUnsignedInt(directory.getShort(at + 32));
            int next = at + MEMBER_BYTES + nameBytes + extraBytes + commentBytes;
            if (next > directory.capacity()) {
                throw damaged("member " + i + " reaches beyond the zip archive's directory");
            }
            byte[] name = new byte[nameBytes];
            directory.get(at + MEMBER_BYTES, name);
            boolean encrypted = (directory.getShort(at + 8) & 1) != 0;
            int method = Short.toUnsignedInt(directory.getShort(at + 10));
            long packed = Integer.toUnsignedLong(directory.getInt(at + 20));
            long size = Integer.toUnsignedLong(directory.getInt(at + 24));
            long header = Integer.toUnsignedLong(directory.getInt(at + 42));
            // zip64: only the fields that do not fit are there, in this order
            int extra = at + MEMBER_BYTES + nameBytes;
            int extraEnd = extra + extraBytes;
            while (extra + 4 <= extraEnd) {
                int id = Short.toUnsignedInt(directory.getShort(extra));
                int bytes = Short.toUnsignedInt(directory.getShort(extra + 2));
                int field = extra + 4;
                int fieldsEnd = Math.min(field + bytes, extraEnd);
                if (id == 1) {
                    if (size == 0xFFFFFFFFL && field + 8 <= fieldsEnd) {
                        size = directory.getLong(field);
                        field += 8;
                    }
                    if (packed == 0xFFFFFFFFL && field + 8 <= fieldsEnd) {
                        packed = directory.getLong(field);
                        field += 8;
                    }
                    if (header == 0xFFFFFFFFL && field + 8 <= fieldsEnd) {
                        header = directory.getLong(field);
                    }
                }
                extra += 4 + bytes;
            }
            String text = new String(name, StandardCharsets.UTF_8);
            if (members.put(text, new Member(header, size, method, encrypted)) != null) {
                throw damaged("the zip archive has two members '" + text + "'");
            }
            at = next;
        }
    }

    /** Names of the members in the order of the directory. */
    Iterable<String> names() {
        return members.keySet();
    }

    boolean has(String name) {
        return members.containsKey(name);
    }

    /**
     * Where the bytes of a member lie.
     *
     * @throws MalformedModelException when there is none of this name, or it lies outside of the archive
     * @throws UnsupportedModelException when it is compressed or encrypted
     */
    FilePart member(String name) throws IOException {
        Member member = members.get(name);
        if (member == null) {
            throw damaged("the archive has no member '" + name + "'");
        }
        if (member.method() != 0 || member.encrypted()) {
            throw new UnsupportedModelException(
                    "member '" + name + "' of the archive is compressed or encrypted, so it cannot be read by position",
                    part.file().toString(),
                    "save it with torch.save, which stores tensors as they are");
        }
        ByteBuffer local = buffer(member.header(), LOCAL_BYTES);
        if (local.getInt(0) != LOCAL) {
            throw damaged("member '" + name + "' is not where the zip archive's directory says");
        }
        long from = member.header()
                + LOCAL_BYTES
                + Short.toUnsignedInt(local.getShort(26))
                + Short.toUnsignedInt(local.getShort(28));
        if (member.size() < 0 || from > part.length() - member.size()) {
            throw damaged("member '" + name + "' of " + member.size() + " bytes reaches beyond the archive's end");
        }
        return part.part(from, member.size());
    }

    private ByteBuffer buffer(long at, long count) throws IOException {
        return ByteBuffer.wrap(part.bytes(at, count)).order(ByteOrder.LITTLE_ENDIAN);
    }

    private MalformedModelException damaged(String what) {
        return new MalformedModelException(what, part.file().toString(), FIX);
    }
}
