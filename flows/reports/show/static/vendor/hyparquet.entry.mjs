export { asyncBufferFromUrl, parquetMetadataAsync, parquetReadObjects } from "hyparquet";
