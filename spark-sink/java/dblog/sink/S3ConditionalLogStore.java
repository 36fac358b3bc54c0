package dblog.sink;

import io.delta.storage.HadoopFileSystemLogStore;
import io.delta.storage.internal.S3LogStoreUtil;
import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Delta's log in S3, safe for any number of drivers: a commit is one PUT under the condition that there is no object of that name (If-None-Match), so
 * the store itself decides which of two drivers gets a version. No table of locks is needed beside it.
 *
 * <p>A PUT whose answer is lost may have succeeded. Delta would take the commit for somebody else's, so what is in the store is compared: each commit has an id
 * of its own in its first action, and is no other driver's if it is the same to the byte.
 *
 * <p>The option is asked of the client as one that it must know: a client that does not (EMRFS, Hadoop before 3.4.2) refuses the first commit. A store that
 * takes the condition and does not heed it is found at the start of the sink.
 *
 * <p>A log is listed from the name on that is asked for (ListObjectsV2, start-after), not from its beginning: Delta asks for what follows the last checkpoint,
 * which is one page, however long the log is. A client that is set to the first version of the listing, which cannot do that, lists everything.
 */
public final class S3ConditionalLogStore extends HadoopFileSystemLogStore {
  /** Hadoop's name of the condition (org.apache.hadoop.fs.Options.CreateFileOptionKeys). */
  private static final String IF_NONE_IS_THERE = "fs.option.create.conditional.overwrite";

  /** Hadoop's setting of the version of S3's listing that it uses. */
  private static final String LIST_VERSION = "fs.s3a.list.version";

  private static final int ATTEMPTS = 3;

  public S3ConditionalLogStore(Configuration hadoopConf) {
    super(hadoopConf);
  }

  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration hadoopConf) throws IOException {
    ByteArrayOutputStream lines = new ByteArrayOutputStream();
    while (actions.hasNext()) {
      lines.write(actions.next().getBytes(StandardCharsets.UTF_8));
      lines.write('\n');
    }
    FileSystem system = path.getFileSystem(hadoopConf);
    if (overwrite) {
      put(system, path, lines.toByteArray(), false);
    } else {
      putIfNoneIsThere(system, path, lines.toByteArray());
    }
  }

  @Override
  public Iterator<FileStatus> listFrom(Path path, Configuration hadoopConf) throws IOException {
    FileSystem system = path.getFileSystem(hadoopConf);
    if (!"s3a".equals(system.getScheme()) || system.getConf().getInt(LIST_VERSION, 2) != 2) {
      return super.listFrom(path, hadoopConf);
    }
    Path from = system.makeQualified(path);
    // S3 lists by the beginning of keys: those below the log, and in a folder whose name begins like the log's, are among them.
    FileStatus[] files =
        Arrays.stream(S3LogStoreUtil.s3ListFromArray(system, from, from.getParent()))
            .filter(file -> from.getParent().equals(file.getPath().getParent()))
            .toArray(FileStatus[]::new);
    if (files.length == 0 && !system.exists(from.getParent())) {
      throw new FileNotFoundException(from.getParent().toString()); // as a listing of the folder does
    }
    return Arrays.stream(files)
        .filter(file -> file.getPath().getName().compareTo(from.getName()) >= 0)
        .sorted(Comparator.comparing(file -> file.getPath().getName()))
        .iterator();
  }

  @Override
  public Boolean isPartialWriteVisible(Path path, Configuration hadoopConf) {
    return false;
  }

  private static void putIfNoneIsThere(FileSystem system, Path path, byte[] content) throws IOException {
    for (int attempt = 1; ; attempt++) {
      try {
        put(system, path, content, true);
        return;
      } catch (IOException failure) {
        byte[] found = found(system, path);
        if (found != null && Arrays.equals(found, content)) {
          return; // it was written, and the answer was lost
        }
        if (found != null) {
          FileAlreadyExistsException taken = new FileAlreadyExistsException(path.toString());
          taken.initCause(failure);
          throw taken;
        }
        if (attempt == ATTEMPTS) {
          throw failure;
        }
      }
    }
  }

  private static byte[] found(FileSystem system, Path path) throws IOException {
    try (FSDataInputStream in = system.open(path)) {
      return in.readAllBytes();
    } catch (FileNotFoundException none) {
      return null;
    }
  }

  private static void put(FileSystem system, Path path, byte[] content, boolean ifNoneIsThere) throws IOException {
    FSDataOutputStreamBuilder<?, ?> builder = system.createFile(path);
    builder.create().recursive().overwrite(!ifNoneIsThere);
    if (ifNoneIsThere) {
      builder.must(IF_NONE_IS_THERE, true);
    }
    // Nothing is in the store before the stream is closed, and an error in between must not close it: what was written so far would become the object.
    FSDataOutputStream out = builder.build();
    out.write(content);
    out.close();
  }
}
